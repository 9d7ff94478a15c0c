"""budget=auto: each round verifies as many nodes as pay on this machine.

A node is worth its chance of being kept; a row costs what the measured curve says. A round takes the n with the largest
E(n) − λ T(n): its expected tokens less its time at the price λ, the tokens per millisecond of recent rounds. (λ is what
the time would yield elsewhere, so this maximises the rate of the whole text; the largest E(n) / T(n) of each round
would not.) All sizes of the curve are considered, since T is a staircase, and no others, since a new size would first
need a kernel or a graph. A node's chance is the drafter's cumulative probability, scaled by how often such places of
the tree were accepted so far. A drafter's probabilities may still be too high, so ``accounts`` keeps what drafting cost
and saved: where plain decoding is faster, drafting pauses after losing about a fiftieth. What the curve says drafting
costs is scaled by what the rounds take (``round_times``). Trees are built no larger than the last choice, unless larger
ones cost next to nothing, and one size larger once the whole tree was chosen several times in a row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import exp
from operator import mul

import numpy as np

from engine.lab.accounts import DraftingAccounts, DraftingLedger
from engine.lab.cost import CostCurve
from engine.lab.round_times import DraftExcess, RunTimes
from engine.records import Acceptance, DraftTree, Integers
from engine.trees.tree import beginning, select

PRIOR_TOKENS = 8.0  # weight of the drafter's own probabilities against what was observed, in expected tokens of a step
MEMORY, RATE_MEMORY = 0.97, 0.8  # weight of the previous round: for the calibration, for the rate
FORGOTTEN = (1 - MEMORY) * PRIOR_TOKENS
FIRST_BUDGET = 24  # the size of the first trees where they are cheap: a larger tree teaches more
CHEAP, ALIKE = 0.01, 0.1  # more nodes are cheap if they cost this share of a plain round, or of a draft of one node
WIDE = 64  # nodes of the draft that a node's cost is read from: over a few it would be lost in the noise
WHOLE_TREES = 3  # after so many trees verified whole in a row, the next is larger
FIRST_PAUSE, PAUSE_GROWTH, LONGEST_PAUSE = 2, 4, 32  # rounds without a draft before the drafter is tried again
OPENING_ROUNDS, OPENING_RATE = 2.0, 2.5  # drafting begins as if after so many rounds at this multiple of plain's rate


class PromiseTally:
    """How much of what trees promised was accepted, by steps: a step is the nodes, best first, from one size of the
    curve to the next."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.expected, self.realised = [PRIOR_TOKENS] * len(sizes), [PRIOR_TOKENS] * len(sizes)
        self.scales = [1.0] * len(sizes)

    def tokens(self, promised: Sequence[float]) -> list[float]:
        """The expected tokens of verifying the best rows of a tree, for each size up to the whole tree, from what its
        steps promise; the root's comes first."""
        return list(accumulate(map(mul, promised, self.scales)))

    def learn(self, promised: Sequence[float], kept: Sequence[int]) -> None:
        """Take note of what the verified steps promised, and of the places of the kept nodes, the root's being 0."""
        for step, tokens in enumerate(promised):
            self.expected[step] = MEMORY * self.expected[step] + FORGOTTEN + tokens
            self.realised[step] = MEMORY * self.realised[step] + FORGOTTEN
        for place in kept:
            self.realised[bisect_right(self.sizes, place)] += 1
        for step in range(len(promised)):
            self.scales[step] = self.realised[step] / self.expected[step]


def promises(logprobs: Sequence[float], sizes: Sequence[int]) -> list[float]:
    """The tokens that each whole step of a tree promises, from its nodes' log probabilities, best first.

    For dozens of nodes Python's loops take no longer than numpy's calls, and displace less of what the target's pass
    needs from the processor's caches.
    """
    reached = [0.0, *accumulate(map(exp, logprobs))]
    marks = [reached[size] for size in sizes if size < len(reached)]
    return [mark - before for mark, before in zip(marks, [0.0, *marks], strict=False)]


def least_budget(curve: CostCurve) -> int:
    """The largest budget up to ``FIRST_BUDGET`` whose draft costs hardly more than that of a single node. A network may
    propose all in one pass; a table, or a drafter that sees its path, takes time for each node."""
    one, wide = curve.draft_at(1), max(2, min(WIDE, curve.rows[-1] - 1))
    each = max(0.0, curve.draft_at(wide) - one) / (wide - 1)
    cheap = max(CHEAP * curve.plain_ms, ALIKE * one)
    return FIRST_BUDGET if each * FIRST_BUDGET <= cheap else max(1, int(cheap / each))


class AdaptiveBudget:
    """A ``BudgetPolicy`` over a cost curve. Deterministic: the same curve and the same rounds make the same choices,
    unless it is told what rounds took.

    ``ledger`` holds what earlier runs of the same drafters have left to lose, ``excess`` what they learnt about the
    curve; without one the run has its own.

    It uses the curve's tenth percentiles: other programs that ran for some seconds of the measurement slowed some sizes
    more than others, and should not sway a choice.
    """

    def __init__(self, curve: CostCurve, ledger: DraftingLedger | None = None,
                 excess: DraftExcess | None = None) -> None:
        self._curve, self._excess = curve, excess or DraftExcess()
        self._times, self._beyond_ms = RunTimes(self._excess), 0.0  # beyond a plain round, by the curve
        # a size that seems dearer than a larger one was disturbed while it was measured
        self._costs = [*accumulate(reversed(curve.verify_low_ms), min)][::-1]
        self._plain_ms = min(curve.plain_ms, self._costs[0] + curve.overhead_ms)  # as undisturbed as the passes
        self._calibration = PromiseTally(curve.rows)
        self._least = least_budget(curve)
        self._room, self._whole_trees = self._least, 0
        self._sunk_ms = self._plain_ms
        self._promised: list[float] = []  # by the steps that are verified
        self._mixed = False  # whether the last tree's nodes were in another order than best first
        # a first round that promises little is no reason to pause yet
        self._tokens, self._spent_ms = OPENING_ROUNDS * OPENING_RATE, OPENING_ROUNDS * self._plain_ms
        self._pause, self._paused = 0, 0
        self._accounts = DraftingAccounts(self._plain_ms, ledger or DraftingLedger())
        self._drafted_ms = 0.0  # the time of the round that drafts, else 0

    def opens(self, drafters: int, budget: int) -> tuple[int, int]:
        """See ``BudgetPolicy``. No drafter drafts while plain decoding is faster; drafting is tried again after ever
        longer pauses."""
        self._drafted_ms = 0.0
        if self._paused < self._pause or not self._accounts.solvent or self._excess.due:
            self._paused += 1
            return 0, 0
        built = min(budget, self._room)
        self._sunk_ms = drafters * self._curve.draft_at(built) + self._curve.overhead_ms
        self._drafted_ms = self._round_ms(0)
        return drafters, built

    def cut(self, tree: DraftTree) -> DraftTree:
        """See ``BudgetPolicy``: the most probable nodes of the tree, in its own order."""
        logprobs = tree.logprobs.tolist()
        best = sorted(logprobs, reverse=True)
        rows = self._choice(promises(best, self._curve.rows))
        self._mixed = logprobs != best  # false for any tree that is built best first
        return select(tree, np.sort(best_order(tree)[:rows])) if self._mixed else beginning(tree, rows - 1)

    def _choice(self, promised: list[float]) -> int:
        """How many rows to verify of a tree whose steps promise this many tokens."""
        rows, costs = self._curve.rows, self._costs
        reached = self._calibration.tokens(promised)
        price = max(self._tokens / self._spent_ms, 1 / self._plain_ms)  # plain decoding would yield the second
        row_price = price * self._excess.factor
        gains = [tokens - row_price * verify_ms for tokens, verify_ms in zip(reached, costs, strict=False)]
        place = gains.index(max(gains))
        self._promised = promised[:place + 1]
        self._whole_trees = self._whole_trees + 1 if place == len(gains) - 1 else 0
        more = self._whole_trees >= WHOLE_TREES and len(gains) < len(rows)
        self._room = max(self._least, rows[place + more] - 1)
        self._drafted_ms = self._round_ms(place)
        self._weigh(reached[place], self._drafted_ms)
        return rows[place]

    def _round_ms(self, place: int) -> float:
        """The expected milliseconds of the round, if it verifies the size at this place of the curve."""
        self._beyond_ms = self._sunk_ms + self._costs[place] - self._plain_ms
        return self._plain_ms + self._excess.factor * self._beyond_ms

    def _weigh(self, tokens: float, milliseconds: float) -> None:
        """Decide whether drafting pays, by the expected tokens of recent rounds that drafted; rounds before a pause do
        not count."""
        memory = 0.0 if self._pause else RATE_MEMORY
        self._tokens = memory * self._tokens + tokens
        self._spent_ms = memory * self._spent_ms + milliseconds
        pays = self._tokens * self._plain_ms >= self._spent_ms
        self._pause = 0 if pays else min(LONGEST_PAUSE, max(FIRST_PAUSE, PAUSE_GROWTH * self._pause))
        self._paused = 0

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """See ``BudgetPolicy``."""
        if self._drafted_ms:
            self._accounts.draft(self._drafted_ms, len(acceptance.keep))
        self._accounts.grow(len(acceptance.keep))
        if len(tree) > 1:
            kept = best_order(tree).argsort()[acceptance.keep] if self._mixed else acceptance.keep
            self._calibration.learn(self._promised, kept.tolist())

    def interrupted(self) -> None:
        """Other runs share the rounds now: later rounds are not compared with those before."""
        self._times.forget()

    def took(self, seconds: Mapping[str, float]) -> None:
        """Learn from the seconds of each stage of a round that this run had to itself."""
        milliseconds = 1e3 * sum(seconds.values())
        if self._drafted_ms:
            self._accounts.correct(self._times.drafted(self._beyond_ms / self._plain_ms, milliseconds))
        else:
            self._times.plain(milliseconds - 1e3 * seconds["draft"])


def best_order(tree: DraftTree) -> Integers:
    """All nodes by descending log probability, the earlier first among equals, (n,) int32. Any prefix of this order is
    a tree with the root first, since no node is more probable than its parent, or comes before it."""
    return (-tree.logprobs).argsort(kind="stable").astype(np.int32)
