"""Conditions, changes and reductions over a list of whole numbers."""

from __future__ import annotations

from engine.recipes.corpus.code_pipeline_parts import Change, Gather, Keep, ValueSource, every, same
from engine.recipes.corpus.code_pipeline_shared import SHARED_GATHERS

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
