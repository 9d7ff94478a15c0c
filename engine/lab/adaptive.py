"""budget=auto: each round verifies as many nodes as pay on this machine.

A node is worth its chance of being kept; a row costs what the measured curve says. A round takes the n with the most
expected tokens per millisecond, E(n) / T(n), the drafter's time included. All sizes of the curve are looked at, since T
is a staircase, and no others, since a kernel or a graph for a new size has to be made first. The chance of the n-th
node is half this tree's own and half the recent rounds' mean: one tree alone says little. The drafter's cumulative
probability is scaled by what came true of such probabilities so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.lab.cost import CostCurve
from engine.records import Acceptance, DraftTree, Integers
from engine.tree import select

BINS = 12  # of cumulative probability, an octave each: 1 to 1/2, 1/2 to 1/4, …
PRIOR_TOKENS = 2.0  # as many expected tokens of a bin stand for the drafter's word before anything was seen
MEMORY = 0.97  # weight of what was seen a round ago; the shorter ones are for the chances by rank and for the rate
RANK_MEMORY, RATE_MEMORY = 0.9, 0.8
FIRST_BUDGET, ROOM = 16, 1.5  # trees are built this much larger than what was last verified, so that it can grow
FIRST_PAUSE, PAUSE_GROWTH, LONGEST_PAUSE = 2, 4, 32  # rounds without a draft before the drafter is tried again
OPENING_ROUNDS, OPENING_RATE = 2.0, 1.5  # plain rounds' time, and times their rate, that drafting begins with
PATIENCE = 0.95  # of the plain loop's rate: below it drafting pauses

Reals = NDArray[np.float64]


@dataclass
class Calibration:
    """Expected and realised tokens by octave of cumulative probability."""

    expected: Reals = field(default_factory=lambda: np.full(BINS, PRIOR_TOKENS))
    realised: Reals = field(default_factory=lambda: np.full(BINS, PRIOR_TOKENS))

    def chances(self, logprobs: Reals) -> Reals:
        """The chance that each node is kept, (n,), from its cumulative log probability in nats."""
        scales = self.realised / self.expected
        return np.minimum(np.exp(logprobs) * scales[_octaves(logprobs)], 1.0)

    def learn(self, logprobs: Reals, kept: NDArray[np.bool_]) -> None:
        """Drafted nodes of a verified tree, and whether each was kept."""
        octaves = _octaves(logprobs)
        for seen, value in ((self.expected, np.exp(logprobs)), (self.realised, kept.astype(np.float64))):
            seen *= MEMORY
            seen += (1 - MEMORY) * PRIOR_TOKENS + np.bincount(octaves, value, BINS)


def _octaves(logprobs: Reals) -> NDArray[np.intp]:
    return np.minimum(-logprobs / np.log(2), BINS - 1).astype(np.intp)


class Ranks:
    """The mean chance of the n-th best node over recent rounds; rounds whose tree was smaller count as 0."""

    def __init__(self, most: int) -> None:
        self._total, self._rounds = np.zeros(most), 0.0

    def blended(self, chances: Reals) -> Reals:
        """A tree's chances (n,), best first, half their own and half the mean with this tree in it."""
        self._total *= RANK_MEMORY
        self._total[:len(chances)] += chances
        self._rounds = RANK_MEMORY * self._rounds + 1
        return (chances + self._total[:len(chances)] / self._rounds) / 2


class AdaptivePace:
    """A ``Pacer`` over a cost curve. Deterministic: the same curve and the same rounds make the same choices."""

    def __init__(self, curve: CostCurve) -> None:
        self._curve = curve
        self._calibration, self._ranks = Calibration(), Ranks(curve.rows[-1])
        self._sizes, self._verify_ms = np.asarray(curve.rows), np.asarray(curve.verify_ms)
        self._room = FIRST_BUDGET
        self._sunk_ms = curve.plain_ms
        # a first round that promises little is no reason yet to pause
        self._tokens, self._spent_ms = OPENING_ROUNDS * OPENING_RATE, OPENING_ROUNDS * curve.plain_ms
        self._pause, self._paused = 0, 0

    def opens(self, heads: int, budget: int) -> tuple[int, int]:
        """See ``Pacer``. No head drafts while plain decoding is the faster; ever rarer rounds try again."""
        if self._paused < self._pause:
            self._paused += 1
            return 0, 0
        built = min(budget, self._room)
        self._sunk_ms = heads * self._curve.draft_at(built) + self._curve.overhead_ms
        return heads, built

    def cut(self, tree: DraftTree) -> DraftTree:
        """See ``Pacer``: the most probable nodes of the tree, in its own order."""
        order = best_order(tree)[:self._sizes[-1]]
        chances = self._calibration.chances(tree.logprobs[order[1:]].astype(np.float64))
        sizes = self._sizes[:int(self._sizes.searchsorted(len(tree), side="right"))]
        spent_ms = self._sunk_ms + self._verify_ms[:len(sizes)]
        place = int((_tokens(self._ranks.blended(chances))[sizes - 1] / spent_ms).argmax())
        nodes = int(sizes[place]) - 1
        roomy = int(self._sizes.searchsorted(1 + max(FIRST_BUDGET, ROOM * nodes)))
        self._room = int(self._sizes[min(roomy, len(self._sizes) - 1)]) - 1
        self._weigh(1 + float(chances[:nodes].sum()), float(spent_ms[place]))
        return _part(tree, order[:nodes + 1])

    def _weigh(self, tokens: float, milliseconds: float) -> None:
        """Does drafting pay? By the expected tokens of the rounds that drafted lately."""
        self._tokens = RATE_MEMORY * self._tokens + tokens
        self._spent_ms = RATE_MEMORY * self._spent_ms + milliseconds
        pays = self._tokens * self._curve.plain_ms >= PATIENCE * self._spent_ms
        self._pause = 0 if pays else min(LONGEST_PAUSE, max(FIRST_PAUSE, PAUSE_GROWTH * self._pause))
        self._paused = 0

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """See ``Pacer``."""
        kept = np.zeros(len(tree), np.bool_)
        kept[acceptance.keep] = True
        if len(tree) > 1:
            self._calibration.learn(tree.logprobs[1:].astype(np.float64), kept[1:])


def _tokens(chances: Reals) -> Reals:
    """Expected tokens of a round that verifies the first 0, 1, … n drafted nodes: the root and Σ chances."""
    return 1 + np.concatenate([np.zeros(1), chances.cumsum()])


def _part(tree: DraftTree, nodes: Integers) -> DraftTree:
    """The tree of these nodes, which begin with the root, in its own order."""
    size = len(nodes)
    if int(nodes.max()) == size - 1:  # they are its beginning, as in every tree that is built best first
        return DraftTree(tree.tokens[:size], tree.parents[:size], tree.logprobs[:size], tree.heads[:size])
    return select(tree, np.sort(nodes))


def best_order(tree: DraftTree) -> Integers:
    """All nodes by log probability, the earlier first among equals: any beginning of it is a tree with the root first,
    since no node is more probable than its parent or stands before it."""
    return (-tree.logprobs).argsort(kind="stable").astype(np.int32)
