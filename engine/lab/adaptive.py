"""budget=auto: each round verifies as many nodes as pay on this machine.

A node is worth its chance of being kept; a row costs what the measured curve says. A round takes the n with the largest
E(n) − λ T(n): its expected tokens less its time at the price λ, the tokens per millisecond of recent rounds (what
the time would bring elsewhere; that maximises the rate of the whole text, where the largest E(n) / T(n) of each round
would not). All sizes of the curve are looked at, since T is a staircase, and no others, since a kernel or a graph for a
new size has to be made first. A node's chance is the drafter's cumulative probability, scaled by what came true so far
of nodes in such places of the tree. What a drafter promises may not come true, so drafting also keeps accounts of what
it cost and brought (``accounts``): where plain decoding wins it rests, at a loss of a fiftieth. What the curve says of
drafting's time is scaled by what the rounds show (``round_times``). Trees are built no larger than the last choice,
unless larger ones cost next to nothing, and a size more when all there was has been chosen some times in a row.
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

PRIOR_TOKENS = 8.0  # as many expected tokens of a step stand for the drafter's word before anything was seen
MEMORY, RATE_MEMORY = 0.97, 0.8  # weight of the previous round: for the calibration, for the rate
FORGOTTEN = (1 - MEMORY) * PRIOR_TOKENS
FIRST_BUDGET = 24  # as large trees are built from the start where they are cheap: the larger one tells more
CHEAP, ALIKE = 0.01, 0.1  # parts of a plain round, and of a draft of one node, that more nodes may cost to be cheap
WIDE = 64  # nodes of the draft that tells what each costs: over a few of them it would be lost in the noise
WHOLE_TREES = 3  # verified whole in a row, they make the next one larger
FIRST_PAUSE, PAUSE_GROWTH, LONGEST_PAUSE = 2, 4, 32  # rounds without a draft before the drafter is tried again
OPENING_ROUNDS, OPENING_RATE = 2.0, 2.5  # plain rounds' time, and times their rate, that drafting begins with


class PromiseTally:
    """How much of what trees promised came true, by steps: a step is the nodes, best first, between one size of the
    curve and the next."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.expected, self.realised = [PRIOR_TOKENS] * len(sizes), [PRIOR_TOKENS] * len(sizes)
        self.scales = [1.0] * len(sizes)

    def tokens(self, promised: Sequence[float]) -> list[float]:
        """Expected tokens of a round that verifies the tree's beginning of each size, as far as the tree goes, from
        what its steps promise; the root's comes first."""
        return list(accumulate(map(mul, promised, self.scales)))

    def learn(self, promised: Sequence[float], kept: Sequence[int]) -> None:
        """What the verified steps promised, and the places, from 0 for the root, of the nodes that were kept."""
        for step, tokens in enumerate(promised):
            self.expected[step] = MEMORY * self.expected[step] + FORGOTTEN + tokens
            self.realised[step] = MEMORY * self.realised[step] + FORGOTTEN
        for place in kept:
            self.realised[bisect_right(self.sizes, place)] += 1
        for step in range(len(promised)):
            self.scales[step] = self.realised[step] / self.expected[step]


def promises(logprobs: Sequence[float], sizes: Sequence[int]) -> list[float]:
    """The tokens that each whole step of a tree promises, from its nodes' log probabilities, best first.

    For dozens of nodes Python's own loops take no longer than numpy's calls, and leave more of what the target's pass
    needs in the processor's caches.
    """
    reached = [0.0, *accumulate(map(exp, logprobs))]
    marks = [reached[size] for size in sizes if size < len(reached)]
    return [mark - before for mark, before in zip(marks, [0.0, *marks], strict=False)]


def least_budget(curve: CostCurve) -> int:
    """The largest budget up to ``FIRST_BUDGET`` whose draft costs next to nothing more than one of a single node: a
    network proposes all in one pass, a table or a drafter that sees its path takes time for each node."""
    one, wide = curve.draft_at(1), max(2, min(WIDE, curve.rows[-1] - 1))
    each = max(0.0, curve.draft_at(wide) - one) / (wide - 1)
    cheap = max(CHEAP * curve.plain_ms, ALIKE * one)
    return FIRST_BUDGET if each * FIRST_BUDGET <= cheap else max(1, int(cheap / each))


class AdaptiveBudget:
    """A ``BudgetPolicy`` over a cost curve. Deterministic: the same curve and the same rounds make the same choices,
    unless it is told what rounds took.

    ``ledger`` is what earlier runs of the same drafters leave it to lose, ``excess`` what they found out about the
    curve; without one it is its own.

    It goes by the curve's tenth percentiles: whatever else ran while it was measured, for seconds and dearer for some
    sizes than for others, is not what a choice should turn on.
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
        self._mixed = False  # whether the last tree's nodes did not lie best first
        # a first round that promises little is no reason yet to pause
        self._tokens, self._spent_ms = OPENING_ROUNDS * OPENING_RATE, OPENING_ROUNDS * self._plain_ms
        self._pause, self._paused = 0, 0
        self._accounts = DraftingAccounts(self._plain_ms, ledger or DraftingLedger())
        self._drafted_ms = 0.0  # the time of the round that drafts, else 0

    def opens(self, drafters: int, budget: int) -> tuple[int, int]:
        """See ``BudgetPolicy``. No drafter drafts while plain decoding is faster; drafting is tried again ever more
        rarely."""
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
        self._mixed = logprobs != best  # never so in a tree that is built best first
        return select(tree, np.sort(best_order(tree)[:rows])) if self._mixed else beginning(tree, rows - 1)

    def _choice(self, promised: list[float]) -> int:
        """How many rows to verify of a tree whose steps promise so much."""
        rows, costs = self._curve.rows, self._costs
        reached = self._calibration.tokens(promised)
        price = max(self._tokens / self._spent_ms, 1 / self._plain_ms)  # without a draft the time brings as much
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
        """Milliseconds of the round, as expected, if it verifies that size of the curve."""
        self._beyond_ms = self._sunk_ms + self._costs[place] - self._plain_ms
        return self._plain_ms + self._excess.factor * self._beyond_ms

    def _weigh(self, tokens: float, milliseconds: float) -> None:
        """Decide whether drafting pays, by the expected tokens of the rounds that drafted recently; what was seen
        before a pause is forgotten."""
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
        """Others share the rounds for a while: what comes after is not compared with what was before."""
        self._times.forget()

    def took(self, seconds: Mapping[str, float]) -> None:
        """Take note of what the round took, by its stages: one that it had to itself."""
        milliseconds = 1e3 * sum(seconds.values())
        if self._drafted_ms:
            self._accounts.correct(self._times.drafted(self._beyond_ms / self._plain_ms, milliseconds))
        else:
            self._times.plain(milliseconds - 1e3 * seconds["draft"])


def best_order(tree: DraftTree) -> Integers:
    """All nodes by log probability, the earlier first among equals: any beginning of it is a tree with the root first,
    since no node is more probable than its parent or stands before it."""
    return (-tree.logprobs).argsort(kind="stable").astype(np.int32)
