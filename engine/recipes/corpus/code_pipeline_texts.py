"""Conditions, changes and reductions over the characters of a string and over a list of words."""

from __future__ import annotations

from engine.recipes.corpus.code_pipeline_parts import Change, Gather, Keep, ValueSource, every, same
from engine.recipes.corpus.code_pipeline_shared import SHARED_GATHERS

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
