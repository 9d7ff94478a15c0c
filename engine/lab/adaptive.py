"""budget=auto: each round verifies as many nodes as pay on this machine.

A node is worth its chance of being kept; a row costs what the measured curve says. Tokens per second over a whole
text are the ratio of two sums, so a round is best spent where its tokens, less its milliseconds at the rate that the
text runs at, are the most: E(n) − λ T(n). All n are looked at, since T is a staircase. The drafter's own cumulative
probability is scaled by what came true of such probabilities so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.lab.cost import CostCurve
from engine.records import Acceptance, DraftTree, Integers
from engine.tree import depths, select

BINS = 12  # of cumulative probability, an octave each: 1 to 1/2, 1/2 to 1/4, …
PRIOR_TOKENS = 2.0  # as many expected tokens of a bin stand for the drafter's word before anything was seen
MEMORY = 0.97  # weight of what was seen a round ago
RATE_MEMORY = 0.8
FIRST_BUDGET, ROOM = 32, 2  # trees are built this much larger than what was last verified, so that it can grow
LONGEST_PAUSE = 32  # rounds without a draft before the drafter is tried again

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


class AdaptivePace:
    """A ``Pacer`` over a cost curve. Deterministic: the same curve and the same rounds make the same choices."""

    def __init__(self, curve: CostCurve) -> None:
        self._curve = curve
        self._calibration = Calibration()
        self._room = FIRST_BUDGET
        self._sunk_ms = curve.plain_ms
        self._tokens, self._spent_ms = 0.0, 0.0
        self._pause, self._paused = 0, 0

    @property
    def rate(self) -> float:
        """Tokens per millisecond of the rounds that drafted, lately; the plain loop's before there were any."""
        return self._tokens / self._spent_ms if self._spent_ms else 1 / self._curve.plain_ms

    def opens(self, heads: int, budget: int) -> tuple[int, int]:
        """See ``Pacer``. No head drafts while plain decoding is the faster; ever rarer rounds try again."""
        if self._paused < self._pause:
            self._paused += 1
            return 0, 0
        built = min(budget, self._room)
        self._sunk_ms = heads * self._curve.draft_at(built) + self._curve.overhead_ms
        return heads, built

    def cut(self, tree: DraftTree) -> DraftTree:
        """See ``Pacer``: the most probable nodes of the tree, in its own order. Parents never fall below children."""
        order = best_order(tree)
        chances = self._calibration.chances(tree.logprobs[order[1:]].astype(np.float64))
        tokens = 1 + np.concatenate([np.zeros(1), chances.cumsum()])
        spent = self._sunk_ms + self._curve.verify_ms_to(len(tree))
        # without a history the round's own best ratio is the rate
        rate = self.rate if self._spent_ms else float((tokens / spent).max())
        nodes = int((tokens - rate * spent).argmax())
        self._note(float(tokens[nodes]), float(spent[nodes]))
        self._room = max(FIRST_BUDGET, ROOM * nodes)
        return select(tree, np.sort(order[:nodes + 1]))

    def _note(self, tokens: float, milliseconds: float) -> None:
        self._tokens = RATE_MEMORY * self._tokens + tokens
        self._spent_ms = RATE_MEMORY * self._spent_ms + milliseconds
        self._pause = 0 if self.rate * self._curve.plain_ms >= 1 else min(LONGEST_PAUSE, max(1, 2 * self._pause))
        self._paused = 0

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """See ``Pacer``."""
        kept = np.zeros(len(tree), np.bool_)
        kept[acceptance.keep] = True
        if len(tree) > 1:
            self._calibration.learn(tree.logprobs[1:].astype(np.float64), kept[1:])


def best_order(tree: DraftTree) -> Integers:
    """All nodes by log probability, then depth, then index: any beginning of it is a tree with the root first."""
    return np.lexsort((depths(tree.parents), -tree.logprobs)).astype(np.int32)
