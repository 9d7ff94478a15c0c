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

BINS = 12  # of cumulative probability, an octave each: 1 to 1/2, 1/2 to 1/4, …
OCTAVES_A_NAT = np.float32(-1 / np.log(2))
PRIOR_TOKENS = 2.0  # as many expected tokens of a bin stand for the drafter's word before anything was seen
MEMORY, RATE_MEMORY = 0.97, 0.8  # weight of what was seen a round ago: for the calibration, for the rate
FIRST_BUDGET = 16  # trees are never built for less: the drafter's pass costs the same, and the tree tells more
FIRST_PAUSE, PAUSE_GROWTH, LONGEST_PAUSE = 2, 4, 32  # rounds without a draft before the drafter is tried again
OPENING_ROUNDS, OPENING_RATE = 2.0, 1.5  # plain rounds' time, and times their rate, that drafting begins with
PATIENCE = 0.95  # of the plain loop's rate: below it drafting pauses

Reals = NDArray[np.float64]


class Calibration:
    """Expected and realised tokens by octave of cumulative probability."""

    def __init__(self) -> None:
        self.expected = np.full(BINS, PRIOR_TOKENS)
        self.realised = np.full(BINS, PRIOR_TOKENS)
        self._scales = np.ones(BINS)

    def chances(self, logprobs: Floats) -> Reals:
        """The chance that each node is kept, (n,), from its cumulative log probability in nats."""
        found = self._scales.take(_octaves(logprobs))
        found *= np.exp(logprobs)
        return np.minimum(found, 1.0, out=found)

    def learn(self, logprobs: Floats, kept: NDArray[np.intp]) -> None:
        """Drafted nodes of a verified tree, (n,), and the places of those that were kept."""
        octaves = _octaves(logprobs)
        for seen, value in ((self.expected, np.bincount(octaves, np.exp(logprobs), BINS)),
                            (self.realised, np.bincount(octaves.take(kept), minlength=BINS))):
            seen *= MEMORY
            seen += value
            seen += (1 - MEMORY) * PRIOR_TOKENS
        self._scales = self.realised / self.expected


def _octaves(logprobs: Floats) -> NDArray[np.intp]:
    return np.minimum(logprobs * OCTAVES_A_NAT, BINS - 1).astype(np.intp)


class AdaptivePace:
    """A ``Pacer`` over a cost curve. Deterministic: the same curve and the same rounds make the same choices."""

    def __init__(self, curve: CostCurve) -> None:
        self._curve = curve
        self._calibration = Calibration()
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
        if bool((tree.logprobs[1:] <= tree.logprobs[:-1]).all()):  # as in every tree that is built best first
            return beginning(tree, self._choice(tree.logprobs[1:]))
        order = best_order(tree)
        return select(tree, np.sort(order[:1 + self._choice(tree.logprobs[order[1:]])]))

    def _choice(self, logprobs: Floats) -> int:
        """How many nodes to verify, out of drafted ones with these cumulative log probabilities, best first."""
        count = int(self._sizes.searchsorted(1 + len(logprobs), side="right"))
        tokens = np.ones(count)
        tokens[1:] += self._calibration.chances(logprobs).cumsum().take(self._sizes[1:count] - 2)
        spent_ms = self._sunk_ms + self._verify_ms[:count]
        place = int((tokens - self._tokens / self._spent_ms * spent_ms).argmax())
        roomy = min(count, len(self._sizes) - 1) if place == count - 1 else place
        self._room = max(FIRST_BUDGET, int(self._sizes[roomy]) - 1)
        self._weigh(float(tokens[place]), float(spent_ms[place]))
        return int(self._sizes[place]) - 1

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
            self._calibration.learn(tree.logprobs[1:], acceptance.keep[1:].astype(np.intp) - 1)


def best_order(tree: DraftTree) -> Integers:
    """All nodes by log probability, the earlier first among equals: any beginning of it is a tree with the root first,
    since no node is more probable than its parent or stands before it."""
    return (-tree.logprobs).argsort(kind="stable").astype(np.int32)
