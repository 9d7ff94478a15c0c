"""Which nodes of several trees are verified, and how many in all: pure arithmetic over chances and a cost curve.

Within a tree, chances fall from node to node, so the first nodes in the order of chances are always a tree themselves,
and the most probable nodes of all trees are the best use of a given number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.lab.cost import CostCurve
from engine.records import Integers

Chances = NDArray[np.float64]  # of a tree's drafted nodes, best first: (n,), none larger than the one before it
BEYOND = 8  # rows between the sizes that are tried where none was measured
BEFORE_ALL = 2.0  # more than any chance, so that owed nodes come first


@dataclass(frozen=True, eq=False)
class Ranking:
    """The drafted nodes of all trees in the order in which they get rows: ``trees`` (n,) is the tree that each belongs
    to, ``reached`` (n + 1,) the expected tokens of the first 0, 1, …, n nodes; the first ``owed`` get rows in any
    case."""

    trees: Integers
    reached: Chances
    owed: int

    def shares(self, nodes: int, trees: int) -> list[int]:
        """How many nodes each of the ``trees`` gets of the first ``nodes``."""
        return [int(count) for count in np.bincount(self.trees[:nodes], minlength=trees)]


def ranked(chances: Sequence[Chances], owed: Sequence[int]) -> Ranking:
    """The ranking of all nodes: first those that each tree is owed, then by chance, the earlier tree first among
    equals."""
    lengths = [len(own) for own in chances]
    whole = np.concatenate([*chances, np.zeros(0)])
    trees = np.repeat(np.arange(len(chances), dtype=np.int32), lengths)
    due = np.zeros(len(whole), np.bool_)
    for begin, own, length in zip(np.cumsum([0, *lengths]), owed, lengths, strict=False):
        due[begin:begin + min(own, length)] = True
    order = (-(whole + BEFORE_ALL * due)).argsort(kind="stable")
    return Ranking(trees[order], np.concatenate([np.zeros(1), whole[order].cumsum()]), int(due.sum()))


def best_total(ranking: Ranking, given: int, curve: CostCurve, price: float) -> int:
    """How many nodes to verify besides the ``given`` rows that are verified in any case: the number with the most
    expected tokens less milliseconds × ``price``. Tried are the curve's sizes, no node, and all owed nodes; beyond the
    curve's end, where its last line goes on, every eighth size and all nodes."""
    most, end = len(ranking.trees), curve.rows[-1] - given
    sizes = {size - given for size in curve.rows} | {0, ranking.owed, *range(max(0, end), most, BEYOND)}
    if end < most:
        sizes.add(most)
    options = np.asarray(sorted(size for size in sizes if ranking.owed <= size <= most))
    gains = ranking.reached[options] - price * np.asarray([curve.verify_low_at(given + size) for size in options])
    return int(options[gains.argmax()])


def best_drafting(worths: Sequence[float], draft_ms: Sequence[float], price: float) -> int:
    """How many of the requests should draft. ``worths`` are the tokens that a draft yields each, in descending order;
    ``draft_ms`` is the time of a joint draft of the first 0, 1, … of them."""
    nets = np.cumsum([0.0, *worths]) - price * np.asarray(draft_ms)
    return int(nets.argmax())
