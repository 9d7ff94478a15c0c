"""The parts that composed functions are made of, over numbers, over characters and over words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from string import Template
from typing import Any


def fill(text: str, **slots: object) -> str:
    """The template text with its slots filled; slots it does not know stay."""
    return Template(text).safe_substitute(slots)


@dataclass(frozen=True)
class Keep:
    """A condition: name stem, phrases for what is kept, source of the test and of its opposite, meaning."""

    stem: str
    phrases: tuple[str, ...]
    test: str
    opposite: str
    meaning: Callable[[Any, Any], bool]
    constant: object = None

    def with_constant(self, constant: object) -> Keep:
        """The same condition with ``$k`` decided."""
        phrases = tuple(fill(phrase, k=constant) for phrase in self.phrases)
        texts = (fill(self.stem, k=constant), phrases, fill(self.test, k=constant),
                 fill(self.opposite, k=constant))
        return Keep(*texts, self.meaning, constant)


@dataclass(frozen=True)
class Change:
    """A change of each element: name stem, phrases, result type, source, meaning."""

    stem: str
    phrases: tuple[str, ...]
    kind: str
    expression: str
    meaning: Callable[[Any, Any], object]
    constant: object = None

    def with_constant(self, constant: object) -> Change:
        """The same change with ``$k`` decided."""
        phrases = tuple(fill(phrase, k=constant) for phrase in self.phrases)
        expression = fill(self.expression, k=constant)
        return replace(
            self, stem=fill(self.stem, k=constant), phrases=phrases, expression=expression, constant=constant
        )


@dataclass(frozen=True)
class Gather:
    """A reduction: the loop's start, step and finish, the one-line form, what it accepts and means."""

    stem: str
    phrases: tuple[str, ...]
    start: str
    step: str
    line: str
    meaning: Callable[[list[Any]], object]
    returns: str
    locals: tuple[str, ...]
    accepts: tuple[str, ...] = ("int", "str")
    finish: str = "$acc"
    takes_change: bool = True


@dataclass(frozen=True)
class ValueSource:
    """A collection to run over, with the parts that suit it; the first keep and change do nothing."""

    kind: str
    items: tuple[str, ...]
    nouns: tuple[str, ...]
    constants: tuple[object, ...]
    keeps: tuple[Keep, ...]
    changes: tuple[Change, ...]
    gathers: tuple[Gather, ...]


def every(element: object, constant: object) -> bool:
    """The meaning of a condition that keeps everything."""
    return True


def same(element: object, constant: object) -> object:
    """The meaning of a change that changes nothing."""
    return element


COUNT = Gather("count", ("counts $things", "returns how many there are of $things"), "0", "$acc += 1",
               "len($listed)",
               len, "int", ("count", "total", "tally", "hits"), takes_change=False)
LISTED = Gather("list", ("returns a list of $things", "collects $things in a list"), "[]", "$acc.append($e)",
                "$listed", list, "list[E]", ("result", "output", "kept", "found"))
DISTINCT = Gather("distinct", ("returns $things as a sorted list without repeats",
                               "lists $things, sorted and with no repeats"),
                  "set()", "$acc.add($e)", "sorted(set($stream))", lambda v: sorted(dict.fromkeys(v)),
                  "list[E]",
                  ("seen", "unique", "distinct"), finish="sorted($acc)")
BACKWARDS = Gather("reversed",
                   ("returns a list of $things in reverse order", "lists $things from last to first"),
                   "[]", "$acc.insert(0, $e)", "$listed[::-1]", lambda v: list(reversed(v)), "list[E]",
                   ("result", "output", "flipped"))
SHARED_GATHERS = (COUNT, LISTED, DISTINCT, BACKWARDS)


NUMBER_KEEPS = (
    Keep("", ("all numbers in $arg", "the numbers in $arg"), "", "", every),
    Keep("even", ("the even numbers in $arg", "the numbers in $arg that are even"),
         "$x % 2 == 0", "$x % 2 != 0", lambda x, k: x % 2 == 0),
    Keep("odd", ("the odd numbers in $arg", "the numbers in $arg that are odd"),
         "$x % 2 == 1", "$x % 2 != 1", lambda x, k: x % 2 == 1),
    Keep("above_$k", ("the numbers in $arg above $k", "the numbers greater than $k in $arg"),
         "$x > $k", "$x <= $k", lambda x, k: x > k),
    Keep("below_$k", ("the numbers in $arg below $k", "the numbers less than $k in $arg"),
         "$x < $k", "$x >= $k", lambda x, k: x < k),
    Keep("from_$k", ("the numbers in $arg that are at least $k", "the numbers of $k or more in $arg"),
         "$x >= $k", "$x < $k", lambda x, k: x >= k),
    Keep("up_to_$k", ("the numbers in $arg that are at most $k", "the numbers of $k or less in $arg"),
         "$x <= $k", "$x > $k", lambda x, k: x <= k),
    Keep("multiples_of_$k", ("the multiples of $k in $arg", "the numbers in $arg divisible by $k"),
         "$x % $k == 0", "$x % $k != 0", lambda x, k: x % k == 0),
    Keep("not_by_$k",
         ("the numbers in $arg not divisible by $k", "the numbers in $arg that $k does not divide"),
         "$x % $k != 0", "$x % $k == 0", lambda x, k: x % k != 0),
    Keep("positive", ("the positive numbers in $arg", "the numbers above zero in $arg"),
         "$x > 0", "$x <= 0", lambda x, k: x > 0),
    Keep("negative", ("the negative numbers in $arg", "the numbers below zero in $arg"),
         "$x < 0", "$x >= 0", lambda x, k: x < 0),
    Keep("not_$k", ("the numbers in $arg other than $k", "the numbers in $arg that are not $k"),
         "$x != $k", "$x == $k", lambda x, k: x != k),
)
NUMBER_CHANGES = (
    Change("", (), "int", "$x", same),
    Change("squared", ("the squares of $things",), "int", "$x * $x", lambda x, k: x**2),
    Change("doubled", ("the doubles of $things", "twice each of $things"), "int", "$x * 2", lambda x,
           k: x + x),
    Change("times_$k", ("$k times each of $things", "$things, each multiplied by $k"), "int", "$x * $k",
           lambda x, k: x * k),
    Change("plus_$k", ("$things, each increased by $k", "$things, with $k added to each"), "int", "$x + $k",
           lambda x, k: x + k),
    Change("minus_$k", ("$things, each decreased by $k", "$things, with $k taken from each"), "int",
           "$x - $k",
           lambda x, k: x - k),
    Change("absolute", ("the absolute values of $things",), "int", "abs($x)", lambda x, k: max(x, -x)),
    Change("negated", ("$things, each with its sign flipped", "the negatives of $things"), "int", "-$x",
           lambda x, k: 0 - x),
    Change("mod_$k", ("the remainders modulo $k of $things",), "int", "$x % $k", lambda x,
           k: x - k * (x // k)),
    Change("capped_$k", ("$things, each capped at $k",), "int", "min($x, $k)", lambda x,
           k: k if x > k else x),
)
NUMBER_GATHERS = (
    Gather("sum", ("returns the sum of $things", "adds up $things"), "0", "$acc += $e", "sum($stream)",
           sum, "int", ("total", "result", "answer", "subtotal"), ("int",)),
    Gather("largest", ("returns the largest of $things, or 0 if there are none",
                       "finds the maximum of $things, with 0 when nothing is left"),
           "[]", "$acc.append($e)", "max($listed, default=0)", lambda v: sorted(v)[-1] if v else 0, "int",
           ("kept", "candidates", "found"), ("int",), "max($acc, default=0)"),
    Gather("smallest", ("returns the smallest of $things, or 0 if there are none",
                        "finds the minimum of $things, with 0 when nothing is left"),
           "[]", "$acc.append($e)", "min($listed, default=0)", lambda v: sorted(v)[0] if v else 0, "int",
           ("kept", "candidates", "found"), ("int",), "min($acc, default=0)"),
    Gather("joined", ("returns $things joined by dashes", "joins $things into a string with dashes"),
           "[]", "$acc.append(str($e))", '"-".join(str(n) for n in $listed)', lambda v: "-".join(map(str, v)),
           "str",
           ("parts", "pieces", "texts"), ("int",), '"-".join($acc)'),
    Gather("ordered", ("returns a sorted list of $things", "lists $things in increasing order"), "[]",
           "$acc.append($e)", "sorted($stream)", sorted, "list[E]", ("result", "output", "kept"),
           finish="sorted($acc)"),
    *SHARED_GATHERS,
)
NUMBER_SOURCE = ValueSource(
    "signed", ("n", "x", "value", "number", "item"), ("numbers", "values", "list"),
    (2, 3, 4, 5, 6, 7, 8, 9, 10),
    NUMBER_KEEPS, NUMBER_CHANGES, NUMBER_GATHERS,
)


CHARACTER_KEEPS = (
    Keep("", ("the characters of $arg", "all characters in $arg"), "", "", every),
    Keep("vowels", ("the vowels in $arg", "the characters of $arg that are vowels"),
         '$x in "aeiou"', '$x not in "aeiou"', lambda x, k: "aeiou".count(x) > 0),
    Keep("non_vowels", ("the characters of $arg that are not vowels", "the non-vowels in $arg"),
         '$x not in "aeiou"', '$x in "aeiou"', lambda x, k: "aeiou".count(x) == 0),
    Keep("not_$k", ("the characters of $arg other than '$k'", "the characters in $arg that are not '$k'"),
         '$x != "$k"', '$x == "$k"', lambda x, k: x != k),
    Keep("before_$k", ("the characters of $arg that come before '$k' in the alphabet",
                       "the letters in $arg earlier than '$k'"),
         '$x < "$k"', '$x >= "$k"', lambda x, k: ord(x) < ord(k)),
    Keep("after_$k", ("the characters of $arg that come after '$k' in the alphabet",
                      "the letters in $arg later than '$k'"),
         '$x > "$k"', '$x <= "$k"', lambda x, k: ord(x) > ord(k)),
)
CHARACTER_CHANGES = (
    Change("", (), "str", "$x", same),
    Change("upper", ("$things in upper case", "$things as capitals"), "str", "$x.upper()",
           lambda x, k: chr(ord(x) - 32)),
    Change("twice", ("$things, each written twice", "$things, each doubled"), "str", "$x * 2", lambda x,
           k: x + x),
    Change("starred", ("$things, each followed by a star",), "str", '$x + "*"', lambda x, k: f"{x}*"),
    Change("marked_$k", ("$things, each with '$k' put before it",), "str", '"$k" + $x', lambda x,
           k: f"{k}{x}"),
)
CHARACTER_GATHERS = (
    Gather("string", ("returns $things as one string", "joins $things into a string"), '""', "$acc += $e",
           '"".join($stream)', "".join, "str", ("result", "output", "built", "answer")),
    Gather("backwards", ("returns $things as one string, last first", "joins $things in reverse order"),
           '""', "$acc = $e + $acc", '"".join($listed[::-1])', lambda v: "".join(reversed(v)), "str",
           ("result", "output", "flipped")),
    Gather("dashed", ("returns $things joined by dashes", "joins $things with dashes"), "[]",
           "$acc.append($e)",
           '"-".join($stream)', "-".join, "str", ("parts", "pieces", "kept"), finish='"-".join($acc)'),
    *SHARED_GATHERS,
)
WORD_KEEPS = (
    Keep("", ("the words in $arg", "all words of $arg"), "", "", every),
    Keep("with_$k", ("the words in $arg that contain '$k'", "the words in $arg with the letter '$k'"),
         '"$k" in $x', '"$k" not in $x', lambda x, k: x.count(k) > 0),
    Keep("without_$k",
         ("the words in $arg that do not contain '$k'", "the words in $arg without the letter '$k'"),
         '"$k" not in $x', '"$k" in $x', lambda x, k: x.count(k) == 0),
    Keep("ending_$k", ("the words in $arg that end with '$k'", "the words in $arg ending in '$k'"),
         '$x.endswith("$k")', 'not $x.endswith("$k")', lambda x, k: x[-1] == k),
    Keep("not_starting_$k",
         ("the words in $arg that do not start with '$k'", "the words in $arg not starting in '$k'"),
         'not $x.startswith("$k")', '$x.startswith("$k")', lambda x, k: x[0] != k),
    Keep("short",
         ("the words in $arg of at most four letters", "the words in $arg with four letters or less"),
         "len($x) <= 4", "len($x) > 4", lambda x, k: len(x) < 5),
    Keep("long",
         ("the words in $arg of at least five letters", "the words in $arg with five letters or more"),
         "len($x) >= 5", "len($x) < 5", lambda x, k: len(x) > 4),
    Keep("even_length",
         ("the words in $arg with an even number of letters", "the words in $arg of even length"),
         "len($x) % 2 == 0", "len($x) % 2 != 0", lambda x, k: len(x) in (2, 4, 6, 8)),
    Keep("odd_length", ("the words in $arg with an odd number of letters", "the words in $arg of odd length"),
         "len($x) % 2 == 1", "len($x) % 2 != 1", lambda x, k: len(x) in (1, 3, 5, 7)),
)
WORD_CHANGES = (
    Change("", (), "str", "$x", same),
    Change("upper", ("$things in upper case", "$things as capitals"), "str", "$x.upper()",
           lambda x, k: "".join(chr(ord(c) - 32) for c in x)),
    Change("backward", ("$things, each spelled backwards", "$things, each reversed"), "str", "$x[::-1]",
           lambda x, k: "".join(reversed(x))),
    Change("lengths", ("the lengths of $things",), "int", "len($x)", lambda x, k: sum(1 for _ in x)),
    Change("initials", ("the first letters of $things",), "str", "$x[0]", lambda x, k: next(iter(x))),
    Change("endings", ("the last letters of $things",), "str", "$x[-1]", lambda x, k: list(x).pop()),
    Change("capitalized", ("$things, each with a capital first letter",), "str", "$x.capitalize()",
           lambda x, k: x[0].upper() + x[1:]),
    Change("prefixes", ("the first three letters of $things", "the three-letter beginnings of $things"),
           "str",
           "$x[:3]", lambda x, k: "".join(list(x)[:3])),
    Change("count_$k", ("the numbers of '$k' in $things", "how often '$k' occurs in each of $things"), "int",
           '$x.count("$k")', lambda x, k: sum(1 for c in x if c == k)),
)
JOINERS = (("spaced", "a space", " "), ("dashed", "a dash", "-"), ("comma", "a comma", ","),
           ("plus", "a plus", "+"))
WORD_GATHERS = (
    *(
        Gather(stem, (f"joins $things with {name}", f"returns $things joined by {name}"), "[]",
               "$acc.append($e)",
               f'"{mark}".join($stream)', mark.join, "str", ("parts", "pieces", "kept", "chosen"), ("str",),
               f'"{mark}".join($acc)')
        for stem, name, mark in JOINERS
    ),
    *SHARED_GATHERS,
)
LETTERS = tuple("aeilnorst")
CHARACTER_SOURCE = ValueSource("word", ("char", "c", "ch", "character"), ("text", "characters", "string"), LETTERS,
                          CHARACTER_KEEPS, CHARACTER_CHANGES, CHARACTER_GATHERS)
WORD_SOURCE = ValueSource("words", ("word", "w", "item", "entry"), ("words", "names", "terms"), LETTERS,
                     WORD_KEEPS,
                     WORD_CHANGES, WORD_GATHERS)
