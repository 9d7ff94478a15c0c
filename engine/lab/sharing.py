"""Which nodes of several trees are verified, and how many in all: pure arithmetic over chances and a cost curve.

Within a tree chances fall from node to node, so whatever is taken of it in the order of chances is a beginning of it,
and the most probable nodes of all trees are the best that so many rows can buy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.lab.cost import CostCurve
from engine.records import Integers

Chances = NDArray[np.float64]  # of the drafted nodes of a tree, best first: (n,), none larger than the one before it
BEFORE_ALL = 2.0  # more than any chance: what is owed comes first


@dataclass(frozen=True, eq=False)
class Ranking:
    """The drafted nodes of all trees in the order in which rows are given to them: ``trees`` (n,) the tree that each
    belongs to, ``reached`` (n + 1,) the expected tokens of the first 0, 1, …, n nodes; the first ``owed`` are given in
    any case."""

    trees: Integers
    reached: Chances
    owed: int

    def shares(self, nodes: int, trees: int) -> list[int]:
        """How many nodes each tree gets when this many are given."""
        return [int(count) for count in np.bincount(self.trees[:nodes], minlength=trees)]


def ranked(chances: Sequence[Chances], owed: Sequence[int]) -> Ranking:
    """All nodes by chance, the earlier tree first among equals, after those that each tree is owed."""
    lengths = [len(own) for own in chances]
    whole = np.concatenate([*chances, np.zeros(0)])
    trees = np.repeat(np.arange(len(chances), dtype=np.int32), lengths)
    due = np.zeros(len(whole), np.bool_)
    for begin, own, length in zip(np.cumsum([0, *lengths]), owed, lengths, strict=False):
        due[begin:begin + min(own, length)] = True
    order = (-(whole + BEFORE_ALL * due)).argsort(kind="stable")
    return Ranking(trees[order], np.concatenate([np.zeros(1), whole[order].cumsum()]), int(due.sum()))


def best_total(ranking: Ranking, given: int, curve: CostCurve, price: float) -> int:
    """How many nodes to verify beside the ``given`` rows that are verified in any case: the total with the largest
    expected tokens less milliseconds at the given price. Considered are the sizes of the curve, none, and all that are
    owed."""
    most = len(ranking.trees)
    sizes = {size - given for size in curve.rows} | {0, ranking.owed}
    options = np.asarray(sorted(size for size in sizes if ranking.owed <= size <= most))
    gains = ranking.reached[options] - price * np.asarray([curve.verify_low_at(given + size) for size in options])
    return int(options[gains.argmax()])


def best_drafting(worths: Sequence[float], draft_ms: Sequence[float], price: float) -> int:
    """How many of the requests should draft. They are ordered by what a draft yields each in tokens, the most first;
    ``draft_ms`` is the cost of a joint draft of the first 0, 1, … of them."""
    nets = np.cumsum([0.0, *worths]) - price * np.asarray(draft_ms)
    return int(nets.argmax())
