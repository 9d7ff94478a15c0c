"""budget=auto: each round verifies as many nodes as pay on this machine.

A node is worth its chance of being kept; a row costs what the measured curve says. A round takes the n with the largest
E(n) − λ T(n): its expected tokens less its time at the price λ, the tokens per millisecond of the rounds of late (what
the time would bring elsewhere; that maximises the rate of the whole text, where the largest E(n) / T(n) of each round
would not). All sizes of the curve are looked at, since T is a staircase, and no others, since a kernel or a graph for a
new size has to be made first. A node's chance is the drafter's cumulative probability, scaled by what came true of such
probabilities so far. Trees are built no larger than the last choice, and a size more when that was all there was.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.lab.cost import CostCurve
from engine.records import Acceptance, DraftTree, Floats, Integers
from engine.tree import beginning, select

BINS = 13  # of cumulative probability, an octave each: 1, below it to 1/2, below that to 1/4, …
ONE = np.float32(1)
PRIOR_TOKENS = 8.0  # as many expected tokens of a bin stand for the drafter's word before anything was seen
MEMORY, RATE_MEMORY = 0.97, 0.8  # weight of what was seen a round ago: for the calibration, for the rate
FORGOTTEN = (1 - MEMORY) * PRIOR_TOKENS
FIRST_BUDGET = 16  # trees are never built for less: the drafter's pass costs the same, and the tree tells more
FIRST_PAUSE, PAUSE_GROWTH, LONGEST_PAUSE = 2, 4, 32  # rounds without a draft before the drafter is tried again
OPENING_ROUNDS, OPENING_RATE = 2.0, 2.5  # plain rounds' time, and times their rate, that drafting begins with
PATIENCE = 0.95  # of the plain loop's rate: below it drafting pauses

Octaves = NDArray[np.int32]


class Calibration:
    """Expected and realised tokens by octave of cumulative probability."""

    def __init__(self) -> None:
        self._seen = np.full((2, BINS), PRIOR_TOKENS)  # expected, realised
        self._scales = np.ones(BINS, np.float32)

    def chances(self, promised: Floats, octaves: Octaves) -> Floats:
        """The chance that each node is kept, (n,), where the drafter promises so much."""
        found = self._scales.take(octaves)
        found *= promised
        return np.minimum(found, ONE, out=found)

    def learn(self, promised: Floats, octaves: Octaves, kept: Integers) -> None:
        """Drafted nodes of a verified tree, (n,), and the places of those that were kept."""
        self._seen *= MEMORY
        self._seen += FORGOTTEN
        expected, realised = self._seen
        expected += np.bincount(octaves, promised, BINS)
        realised += np.bincount(octaves.take(kept), None, BINS)
        np.divide(realised, expected, out=self._scales, casting="same_kind")


def promises(logprobs: Floats) -> tuple[Floats, Octaves]:
    """Cumulative probabilities of nodes (n,), and the octave that each lies in."""
    promised = np.exp(logprobs)
    octaves = np.frexp(promised)[1]
    return promised, np.minimum(np.subtract(1, octaves, out=octaves), BINS - 1, out=octaves)


class AdaptivePace:
    """A ``Pacer`` over a cost curve. Deterministic: the same curve and the same rounds make the same choices.

    It goes by the curve's tenth percentiles: whatever else ran while it was measured, for seconds and dearer for some
    sizes than for others, is not what a choice should turn on.
    """

    def __init__(self, curve: CostCurve) -> None:
        self._curve = curve
        self._calibration = Calibration()
        self._sizes = tuple(zip(curve.rows, curve.verify_low_ms, strict=True))
        self._room = FIRST_BUDGET
        self._draft_ms: dict[int, float] = {}  # by the budget that trees are built for
        self._sunk_ms = curve.plain_ms
        self._verified = promises(np.zeros(0, np.float32))
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
        promised, octaves = promises(tree.logprobs[1:])
        chances, in_turn = self._calibration.chances(promised, octaves), tree.logprobs.tolist()
        if in_turn == sorted(in_turn, reverse=True):  # as in every tree that is built best first
            nodes = self._choice(chances)
            self._verified = promised[:nodes], octaves[:nodes]
            return beginning(tree, nodes)
        order = best_order(tree)
        taken = np.sort(order[:1 + self._choice(chances[order[1:] - 1])])
        self._verified = promised[taken[1:] - 1], octaves[taken[1:] - 1]
        return select(tree, taken)

    def _choice(self, chances: Floats) -> int:
        """How many nodes to verify, out of drafted ones with these chances, best first."""
        reached, price = [0.0, *chances.cumsum().tolist()], self._tokens / self._spent_ms
        sizes = [(rows, verify_ms) for rows, verify_ms in self._sizes if rows <= len(reached)]
        gains = [reached[rows - 1] - price * verify_ms for rows, verify_ms in sizes]
        place = gains.index(max(gains))
        rows, verify_ms = sizes[place]
        roomy = self._sizes[len(sizes)][0] if place == len(sizes) - 1 < len(self._sizes) - 1 else rows
        self._room = max(FIRST_BUDGET, roomy - 1)
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
            self._calibration.learn(*self._verified, acceptance.keep[1:] - 1)


def best_order(tree: DraftTree) -> Integers:
    """All nodes by log probability, the earlier first among equals: any beginning of it is a tree with the root first,
    since no node is more probable than its parent or stands before it."""
    return (-tree.logprobs).argsort(kind="stable").astype(np.int32)
