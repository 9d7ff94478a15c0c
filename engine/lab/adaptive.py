"""budget=auto: each round verifies as many nodes as pay on this machine.

A node is worth its chance of being kept; a row costs what the measured curve says. A round takes the n with the largest
E(n) − λ T(n): its expected tokens less its time at the price λ, the tokens per millisecond of the rounds of late (what
the time would bring elsewhere; that maximises the rate of the whole text, where the largest E(n) / T(n) of each round
would not). All sizes of the curve are looked at, since T is a staircase, and no others, since a kernel or a graph for a
new size has to be made first. A node's chance is the drafter's cumulative probability, scaled by what came true of such
probabilities so far. Trees are built no larger than the last choice, and a size more when all there was has been
chosen some times in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import exp, frexp
from operator import itemgetter

import numpy as np

from engine.lab.cost import CostCurve
from engine.records import Acceptance, DraftTree, Integers
from engine.tree import beginning, select

BINS = 13  # of cumulative probability, an octave each: 1, below it to 1/2, below that to 1/4, …
PRIOR_TOKENS = 8.0  # as many expected tokens of a bin stand for the drafter's word before anything was seen
MEMORY, RATE_MEMORY = 0.97, 0.8  # weight of what was seen a round ago: for the calibration, for the rate
FORGOTTEN = (1 - MEMORY) * PRIOR_TOKENS
FIRST_BUDGET = 24  # trees are never built for less: the drafter's pass costs the same, and the tree tells more
WHOLE_TREES = 3  # verified whole in a row, they make the next one larger
FIRST_PAUSE, PAUSE_GROWTH, LONGEST_PAUSE = 2, 4, 32  # rounds without a draft before the drafter is tried again
OPENING_ROUNDS, OPENING_RATE = 2.0, 2.5  # plain rounds' time, and times their rate, that drafting begins with
PATIENCE = 0.95  # of the plain loop's rate: below it drafting pauses

Promises = list[tuple[float, int]]  # a node's cumulative probability, and the octave that it lies in


class Calibration:
    """Expected and realised tokens by octave of cumulative probability."""

    def __init__(self) -> None:
        self.expected, self.realised = [PRIOR_TOKENS] * BINS, [PRIOR_TOKENS] * BINS
        self._scales = [1.0] * BINS

    def chances(self, promises: Promises) -> list[float]:
        """The chance that each node is kept."""
        return [min(1.0, promised * self._scales[octave]) for promised, octave in promises]

    def learn(self, promises: Promises, kept: Sequence[int]) -> None:
        """Drafted nodes of a verified tree, and the places of those that were kept."""
        self.expected = [MEMORY * tokens + FORGOTTEN for tokens in self.expected]
        self.realised = [MEMORY * tokens + FORGOTTEN for tokens in self.realised]
        for promised, octave in promises:
            self.expected[octave] += promised
        for place in kept:
            self.realised[promises[place][1]] += 1
        self._scales = [came / said for came, said in zip(self.realised, self.expected, strict=True)]


def promises_of(tree: DraftTree) -> Promises:
    """The drafted nodes' cumulative probabilities, each with its octave. (For dozens of nodes Python's own loops take
    no longer than numpy's calls, and leave more of what the target's pass needs in the processor's caches.)"""
    return [(promised, min(1 - frexp(promised)[1], BINS - 1)) for promised in map(exp, tree.logprobs[1:].tolist())]


class AdaptivePace:
    """A ``Pacer`` over a cost curve. Deterministic: the same curve and the same rounds make the same choices.

    It goes by the curve's tenth percentiles: whatever else ran while it was measured, for seconds and dearer for some
    sizes than for others, is not what a choice should turn on.
    """

    def __init__(self, curve: CostCurve) -> None:
        self._curve = curve
        self._calibration = Calibration()
        self._sizes = tuple(zip(curve.rows, curve.verify_low_ms, strict=True))
        self._room, self._whole_trees = FIRST_BUDGET, 0
        self._draft_ms: dict[int, float] = {}  # by the budget that trees are built for
        self._sunk_ms = curve.plain_ms
        self._verified: Promises = []
        # a first round that promises little is no reason yet to pause
        self._tokens, self._spent_ms = OPENING_ROUNDS * OPENING_RATE, OPENING_ROUNDS * curve.plain_ms
        self._pause, self._paused = 0, 0

    def opens(self, heads: int, budget: int) -> tuple[int, int]:
        """See ``Pacer``. No head drafts while plain decoding is the faster; ever rarer rounds try again."""
        if self._paused < self._pause:
            self._paused += 1
            return 0, 0
        built = min(budget, self._room)
        if built not in self._draft_ms:
            self._draft_ms[built] = self._curve.draft_at(built)
        self._sunk_ms = heads * self._draft_ms[built] + self._curve.overhead_ms
        return heads, built

    def cut(self, tree: DraftTree) -> DraftTree:
        """See ``Pacer``: the most probable nodes of the tree, in its own order."""
        promises = promises_of(tree)
        chances = self._calibration.chances(promises)
        if promises == sorted(promises, key=itemgetter(0), reverse=True):  # as in every tree that is built best first
            nodes = self._choice(chances)
            self._verified = promises[:nodes]
            return beginning(tree, nodes)
        order = best_order(tree)
        taken = np.sort(order[:1 + self._choice([chances[node - 1] for node in order[1:].tolist()])])
        self._verified = [promises[node - 1] for node in taken[1:].tolist()]
        return select(tree, taken)

    def _choice(self, chances: Sequence[float]) -> int:
        """How many nodes to verify, out of drafted ones with these chances, best first."""
        reached, price = [0.0, *accumulate(chances)], self._tokens / self._spent_ms
        sizes = [(rows, verify_ms) for rows, verify_ms in self._sizes if rows <= len(reached)]
        gains = [reached[rows - 1] - price * verify_ms for rows, verify_ms in sizes]
        place = gains.index(max(gains))
        rows, verify_ms = sizes[place]
        self._whole_trees = self._whole_trees + 1 if place == len(sizes) - 1 else 0
        more = self._whole_trees >= WHOLE_TREES and len(sizes) < len(self._sizes)
        self._room = max(FIRST_BUDGET, (self._sizes[len(sizes)][0] if more else rows) - 1)
        self._weigh(1 + reached[rows - 1], self._sunk_ms + verify_ms)
        return rows - 1

    def _weigh(self, tokens: float, milliseconds: float) -> None:
        """Does drafting pay? By the expected tokens of the rounds that drafted lately."""
        self._tokens = RATE_MEMORY * self._tokens + tokens
        self._spent_ms = RATE_MEMORY * self._spent_ms + milliseconds
        pays = self._tokens * self._curve.plain_ms >= PATIENCE * self._spent_ms
        self._pause = 0 if pays else min(LONGEST_PAUSE, max(FIRST_PAUSE, PAUSE_GROWTH * self._pause))
        self._paused = 0

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """See ``Pacer``."""
        if len(tree) > 1:
            self._calibration.learn(self._verified, [node - 1 for node in acceptance.keep[1:].tolist()])


def best_order(tree: DraftTree) -> Integers:
    """All nodes by log probability, the earlier first among equals: any beginning of it is a tree with the root first,
    since no node is more probable than its parent or stands before it."""
    return (-tree.logprobs).argsort(kind="stable").astype(np.int32)
