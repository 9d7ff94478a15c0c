"""Reductions that suit every kind of element."""

from __future__ import annotations

from engine.recipes.corpus.code_pipeline_parts import Gather

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
