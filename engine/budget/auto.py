"""budget=auto: verifies as many nodes as pay on this machine, for one run or for several that share rounds.

A round verifies the number of nodes n that maximises E(n) − λ T(n): the expected tokens, less the round's time priced
at λ, the tokens per millisecond of recent rounds. (Maximising E(n) / T(n) in every round would not maximise the rate of
the whole text.) T comes from the cost curve, a staircase, so all measured sizes are tried.

Three estimates are kept from run to run of the same drafters (``DraftHistory``):

- **Calibration of acceptance**: a node's chance is the drafter's probability of its path, scaled by how often nodes of
  that rank were accepted.
- **The balance of drafting**: accepted tokens, less the cost of drafting in tokens of plain decoding. Below zero the
  drafter pauses until the allowance ``EXPLORATION`` has paid for its last draft. Promised tokens do not count, because
  a drafter can be sure of itself and always wrong.
- **A correction of the drafting cost**: the measured cost of a drafting round over the predicted one, both relative to
  the plain rounds beside it, so that machine load cancels out.

Runs at ``auto`` share one total of rows. Chances fall along every path, so the most probable nodes of all trees are the
best use of it, and form a top part of each tree. Runs at fixed budgets keep their whole trees.

No constant is tuned: halving or doubling one changes the time over recorded drafts by at most 1.5 %
(``tests/engine/budget``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import exp, inf, log
from statistics import fmean
from typing import NamedTuple

import numpy as np

from engine.budget.cost import MAX_DELAY, CostCurve, interpolate
from engine.decoding.budget_policy import BudgetPolicy
from engine.decoding.tree import prefix, select
from engine.records import Acceptance, DraftTree, Integers

DECAY = 0.95  # weight of the past, per round
PRIOR = 8.0  # tokens; how strongly the drafter's own probabilities count against what was observed
INITIAL_BALANCE = 5.0  # tokens; the limit is twice this, so a few misses after good rounds do not pause the drafter
EXPLORATION = 0.02  # fraction of rounds spent on drafts that lose, or on plain rounds, to keep the estimates fresh
FIRST_DRAFT_SLACK = 0.9  # the first tree's draft may cost up to 1.9 times the smallest; two passes of a network cost 2
MAX_FIRST_NODES = 16  # a larger first tree would teach more, but takes longer to build

RANK_STEPS = (1, 2, 3, 5, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025)  # first rank of each bin
BIN_OF_RANK = tuple(bisect_right(RANK_STEPS, rank) for rank in range(RANK_STEPS[-1] + 1))
BINS = len(RANK_STEPS) + 1

# Python floats, not numpy: for dozens of nodes a loop is faster than numpy's calls, which also evict from the
# processor's caches what the target's next pass needs.
Chances = list[float]  # of a tree's drafted nodes, best first

# A curve in units of one-row passes, for a run that begins while others occupy the rig: only ratios matter.
UNMEASURED = CostCurve("", "", "", "", 0, 0, RANK_STEPS, *(tuple(1 + (size - 1) / 20 for size in RANK_STEPS),) * 3,
                       (0.7,) * len(RANK_STEPS), 0.05, 1.05)


@dataclass
class DraftHistory:
    """Estimates for one method with its drafters on one rig, over all runs."""

    promised: list[float] = field(default_factory=lambda: [PRIOR] * BINS)  # tokens, by the nodes' bin of ranks
    accepted: list[float] = field(default_factory=lambda: [PRIOR] * BINS)
    scales: list[float] = field(default_factory=lambda: [1.0] * BINS)  # accepted / promised
    balance: float = field(default_factory=lambda: INITIAL_BALANCE)
    factor: float = 1.0  # correction of the extra time of a drafting round over a plain one
    drafts_since_plain: int = 0  # rounds
    _expected: float = 1.0  # the curve counts as one observed round that takes twice a plain one
    _measured: float = 1.0

    def calibrate(self, probabilities: Sequence[float], accepted_ranks: Sequence[int]) -> None:
        """Learn from a verified tree.

        Args:
            probabilities: path probabilities of the verified nodes, best first.
            accepted_ranks: ranks of the accepted nodes among these, from 1.
        """
        promised, accepted = self.promised, self.accepted
        last = BIN_OF_RANK[len(probabilities)]
        for number in range(last + 1):
            promised[number] = DECAY * promised[number] + (1 - DECAY) * PRIOR
            accepted[number] = DECAY * accepted[number] + (1 - DECAY) * PRIOR
        for rank, probability in enumerate(probabilities, 1):
            promised[BIN_OF_RANK[rank]] += probability
        for rank in accepted_ranks:
            accepted[BIN_OF_RANK[rank]] += 1
        for number in range(last + 1):
            self.scales[number] = accepted[number] / promised[number]

    def add_to_balance(self, tokens: float, cost: float) -> None:
        """Add a round's tokens less its cost, up to a limit that pays for a few more of these rounds."""
        limit = 2 * INITIAL_BALANCE * max(1.0, cost)
        self.balance = min(limit, self.balance + tokens - cost)

    def correct(self, extra: float, measured: float) -> None:
        """Learn the correction factor from a drafting round.

        We fit a line through the origin, so rounds that cost hardly more than a plain one, and show only noise, weigh
        little. Logarithms are compared, so that delays cancel on average.

        Args:
            extra: predicted duration beyond a plain round, uncorrected, in plain rounds.
            measured: duration of the round, in plain rounds.
        """
        expected = 1 + self.factor * extra
        delay = log(min(MAX_DELAY, max(1 / MAX_DELAY, measured / expected)))
        self._expected = DECAY * self._expected + (1 - DECAY) + extra * extra
        self._measured = DECAY * self._measured + (1 - DECAY) + extra * (expected * (1 + delay) - 1)
        self.factor = max(0.1, self._measured / self._expected)


@dataclass(frozen=True, eq=False)
class Candidates:
    """A built tree, ready to be cut. ``order``: its nodes, best first (None if they already are). In that order:
    the drafter's ``probabilities`` and the calibrated ``chances`` of the drafted nodes."""

    tree: DraftTree
    order: Integers | None = None
    probabilities: Chances = field(default_factory=list)
    chances: Chances = field(default_factory=list)


class RoundPrediction(NamedTuple):
    """What a round should take. ``round_ms``: its duration, corrected. ``extra_ms``: its extra over a plain round,
    uncorrected. ``cost``: this run's part of the corrected extra, in tokens of plain decoding."""

    round_ms: float
    extra_ms: float = 0.0
    cost: float = 0.0


class AutoBudget(BudgetPolicy):
    """Verifies as many nodes as pay, alone or among other runs.

    It reads the curve's tenth percentiles, because another program may have slowed some sizes while the curve was
    measured.
    """

    def __init__(self, curve: CostCurve, history: DraftHistory | None = None, pools_rows: bool = True) -> None:
        """``pools_rows``: see ``BudgetPolicy``. False makes it deterministic."""
        self.curve, self.history, self.pools_rows = curve, history or DraftHistory(), pools_rows
        # a size that looks slower than a larger one was disturbed while it was measured
        self._low_ms = dict(zip(curve.rows, [*accumulate(reversed(curve.verify_low_ms), min)][::-1], strict=True))
        self.plain_ms = min(curve.plain_ms, self.pass_ms(1) + curve.overhead_ms)  # as undisturbed as the passes
        self._budgets = [size - 1 for size in curve.rows if size > 1]  # whose passes are measured
        self._passes: dict[int, list[tuple[int, float]]] = {}  # see ``candidate_passes``
        max_draft_ms = (1 + FIRST_DRAFT_SLACK) * curve.draft_at(1)
        self._min_built = max([nodes for nodes in self._budgets
                               if nodes <= MAX_FIRST_NODES and curve.draft_at(nodes) <= max_draft_ms], default=1)
        self._max_built = self._min_built  # nodes of the next tree
        self._tokens, self._spent_ms = 1.0, self.plain_ms  # of recent rounds
        self.drafter_count, self.built = 0, 0  # of this round
        self._candidates: Candidates | None = None
        self._prediction = RoundPrediction(self.plain_ms)
        # logarithms of the latest plain rounds' milliseconds: older ones had a shorter context
        self._plain_logs: deque[float] = deque(maxlen=5)

    def plan(self, drafter_count: int, budget: int) -> tuple[int, int]:
        """See ``BudgetPolicy``. No drafter drafts while drafting does not pay, or when a plain round is due."""
        history = self.history
        drafts = history.balance >= 0 and EXPLORATION * history.drafts_since_plain < 1
        self.drafter_count, self.built = (drafter_count, min(budget, self._max_built)) if drafts else (0, 0)
        return self.drafter_count, self.built

    def cut(self, policies: Sequence[AutoBudget], trees: Sequence[DraftTree], others: Sequence[DraftTree]
            ) -> list[DraftTree]:
        """See ``BudgetPolicy``: the most probable nodes of all trees, each tree in its own order."""
        requests, fixed_rows = len(policies) + len(others), len(policies) + sum(map(len, others))
        lead = max(policies, key=lambda policy: policy.curve.context)  # rows cost the most after the longest context
        factor, passes = lead.history.factor, lead.candidate_passes(fixed_rows)
        plain_ms = lead.plain_ms + lead.pass_ms(requests) - lead.pass_ms(1) + (requests - 1) * lead.curve.overhead_ms
        tokens_per_ms = max(requests / plain_ms,
                            sum(policy.tokens_per_ms for policy in policies) + len(others) / plain_ms)

        candidates = [policy.candidates(tree) for policy, tree in zip(policies, trees, strict=True)]
        if len(policies) == 1:
            chances, owners = candidates[0].chances, None
        else:
            ranked = sorted([(chance, -number) for number, one in enumerate(candidates) for chance in one.chances],
                            reverse=True)
            chances, owners = [chance for chance, _ in ranked], [-number for _, number in ranked]
        size, pass_ms = best_size(chances, passes, factor * tokens_per_ms)
        nodes = [size] if owners is None else Counter(owners[:size])  # by policy

        row_ms = (pass_ms - passes[0][1]) / max(1, size)
        drafted = sum(policy.built + 1 for policy in policies if policy.drafter_count)  # rows, as the curve counts
        drafts_ms = [policy.drafter_count * lead.curve.draft_at(drafted - 1) * (policy.built + 1) / drafted
                     if policy.drafter_count else 0.0 for policy in policies]
        extra_ms = pass_ms - lead.pass_ms(requests) + sum(drafts_ms)
        round_ms = plain_ms + factor * extra_ms
        return [policy.choose(one, nodes[number], RoundPrediction(
                    round_ms, extra_ms, factor * (draft_ms + row_ms * nodes[number]) * requests / plain_ms))
                for number, (policy, one, draft_ms) in enumerate(zip(policies, candidates, drafts_ms, strict=True))]

    def candidates(self, tree: DraftTree) -> Candidates:
        """Rank the nodes of a built tree; chances never rise."""
        if not self.drafter_count:
            return Candidates(tree)
        logprobs = tree.logprobs.tolist()
        best = sorted(logprobs, reverse=True)
        probabilities = [exp(logprob) for logprob in best[1:]]
        scales, chances, lowest = self.history.scales, [], 1.0
        for rank, probability in enumerate(probabilities, 1):
            lowest = min(lowest, probability * scales[BIN_OF_RANK[rank]])
            chances.append(lowest)
        return Candidates(tree, best_order(tree) if best != logprobs else None, probabilities, chances)

    def choose(self, candidates: Candidates, nodes: int, prediction: RoundPrediction) -> DraftTree:
        """Verify the best ``nodes`` candidates, and return their tree. The next tree is one size larger than this
        choice, and at most one size smaller than this tree was, because what pays differs from round to round."""
        self._candidates, self._prediction = candidates, prediction
        self._tokens = DECAY * self._tokens + (1 + sum(candidates.chances[:nodes]))
        self._spent_ms = DECAY * self._spent_ms + prediction.round_ms
        self.history.drafts_since_plain = self.history.drafts_since_plain + 1 if self.drafter_count else 0
        if not self.drafter_count:
            return candidates.tree
        budgets = self._budgets
        smaller = budgets[max(0, bisect_left(budgets, self._max_built) - 1)] if budgets else 1
        index = bisect_right(budgets, nodes)
        larger = budgets[index] if index < len(budgets) else nodes
        self._max_built = max(self._min_built, smaller, larger)
        if candidates.order is None:
            return prefix(candidates.tree, nodes)
        return select(candidates.tree, np.sort(candidates.order[:nodes + 1]))

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        kept, candidates = len(acceptance.keep), self._candidates
        if len(tree) > 1 and candidates:
            ranks = acceptance.keep if candidates.order is None else best_order(tree).argsort()[acceptance.keep]
            self.history.calibrate(candidates.probabilities[:len(tree) - 1], ranks[1:].tolist())
        self.history.add_to_balance(EXPLORATION * kept + kept - 1, self._prediction.cost)

    def record_timing(self, seconds: Mapping[str, float], alone: bool = True) -> None:
        """See ``BudgetPolicy``. After a shared round, later rounds cannot be compared with earlier plain ones."""
        if not alone:
            self._plain_logs.clear()
            self.history.drafts_since_plain = 0
            return
        milliseconds = 1e3 * sum(seconds.values())
        if not self.drafter_count:
            self._plain_logs.append(log(milliseconds - 1e3 * seconds["draft"]))
        elif self._plain_logs:
            recent_plain_ms = exp(fmean(self._plain_logs))
            self._plain_logs.popleft()  # or a delayed one would make many rounds look cheap
            self.history.correct(self._prediction.extra_ms / self.plain_ms, milliseconds / recent_plain_ms)

    def pass_ms(self, rows: int) -> float:
        measured = self._low_ms.get(rows)
        return interpolate(self.curve.rows, list(self._low_ms.values()), rows) if measured is None else measured

    def candidate_passes(self, fixed_rows: int) -> list[tuple[int, float]]:
        """Return the (nodes, milliseconds) to try beside ``fixed_rows`` rows, ascending: 0, measured
        sizes, and steps beyond."""
        if fixed_rows not in self._passes:
            end = max(0, self.curve.rows[-1] - fixed_rows)
            sizes = [0, *(size - fixed_rows for size in self.curve.rows if size > fixed_rows),
                     *(end + step for step in RANK_STEPS)]
            self._passes[fixed_rows] = [(size, self.pass_ms(fixed_rows + size)) for size in sizes]
        return self._passes[fixed_rows]

    @property
    def tokens_per_ms(self) -> float:
        return self._tokens / self._spent_ms


def best_size(chances: Chances, passes: Sequence[tuple[int, float]], tokens_per_ms: float) -> tuple[int, float]:
    """Return the entry of ``passes`` that maximises expected tokens − ``tokens_per_ms`` × milliseconds.

    Args:
        chances: acceptance chances of all candidates, descending.
        passes: see ``AutoBudget.candidate_passes``; those with more nodes than candidates are skipped.
        tokens_per_ms: what a millisecond would yield elsewhere.
    """
    expected = [0.0, *accumulate(chances)]  # tokens, by the number of nodes
    best, best_gain = passes[0], -inf
    for size, pass_ms in passes:
        if size >= len(expected):
            break
        gain = expected[size] - tokens_per_ms * pass_ms
        if gain > best_gain:
            best, best_gain = (size, pass_ms), gain
    return best


def best_order(tree: DraftTree) -> Integers:
    """Return all nodes by descending log probability, ties by index, (n,) int32. Any prefix of it is a tree, because no
    node is more probable than its parent."""
    return (-tree.logprobs).argsort(kind="stable").astype(np.int32)
