"""budget=auto: a round verifies as many nodes as pay on this machine, for one run or for several that share rounds.

A node is worth its chance of being accepted; a row costs what the cost curve says. A round takes the number of nodes n
with the largest E(n) − λ T(n): its expected tokens less its time at the price λ, the tokens per millisecond of recent
rounds. (λ is what the time would yield elsewhere, so this maximises the rate of the whole text; the largest E(n) / T(n)
of each round would not.) T is a staircase where kernels come in sizes, so all measured sizes are tried.

Three things are learnt, and kept from run to run of the same drafters (``DraftHistory``):

- **acceptance calibration**: a node's chance is the drafter's probability of its path, scaled by how often such places
  of a tree were accepted;
- **drafting's balance**: the accepted tokens of drafting rounds less what drafting cost, in tokens of plain decoding.
  Below zero the drafter rests, until its allowance of ``TRIAL`` has made up for the last draft: a cheap drafter is soon
  asked again, a dear one seldom. It counts what came true: a drafter that is sure of itself may be wrong every time;
- **the drafting cost's factor**. A curve measured in a second beside other programs may be wrong by half. A choice
  depends on one proportion, the time that drafting takes beyond a plain round, so one factor on that is learnt from
  rounds next to plain ones, never from the clock's own milliseconds: other programs slow both alike.

Several runs share one total of rows: chances fall along every path, so the most probable nodes of all trees are the
best use of a number of rows, and form a top part of each tree. Runs at fixed budgets keep their whole trees. What their
passes and drafts cost is read off the curve of one run, at as many rows.

Six constants, which hardly matter: over recorded drafts at ten machines' costs (``tests/engine/budget``) half or twice
the value of any of them changes the time by 1.5 % or less.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import exp, inf, log
from statistics import fmean
from typing import TypeGuard

import numpy as np

from engine.budget.cost import HELD_UP, CostCurve, interpolate
from engine.decoding.budget_policy import BudgetPolicy
from engine.decoding.tree import beginning, select
from engine.records import Acceptance, DraftTree, Integers

MEMORY = 0.95  # weight of what was known a round ago
PRIOR = 8.0  # weight of the drafter's own probabilities against what is seen, in tokens of a step
# The first balance, in tokens; the largest, in tokens or drafts, is twice that: a few misses in a row after good rounds
# are no reason to rest.
BALANCE = 5.0
TRIAL = 0.02  # of the text may go into trying drafts that do not pay, and of the rounds into plain ones to compare with
ALIKE = 0.9  # of the least draft: so much more the first tree's may take; a second step of a network takes all of it
FIRST_NODES = 16  # the largest first tree: a larger one teaches more, and takes longer to build

STEPS = (1, 2, 3, 5, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025)  # places of a tree, by rank
STEP_OF = tuple(bisect_right(STEPS, rank) for rank in range(STEPS[-1] + 1))

# Python's own numbers: for dozens of nodes its loops take less time than numpy's calls, which besides displace what the
# target's pass needs from the processor's caches.
Chances = list[float]  # of a tree's drafted nodes, best first

# In passes over one row, for a run that begins while others occupy the rig: only proportions decide.
UNMEASURED = CostCurve("", "", "", "", 0, 0, STEPS, *(tuple(1 + (size - 1) / 20 for size in STEPS),) * 3,
                       (0.7,) * len(STEPS), 0.05, 1.05)


@dataclass
class DraftHistory:
    """What is known of one method with its drafters on one rig, over all runs."""

    promised: list[float] = field(default_factory=lambda: [PRIOR] * (len(STEPS) + 1))  # tokens of nodes, by step
    accepted: list[float] = field(default_factory=lambda: [PRIOR] * (len(STEPS) + 1))
    scales: list[float] = field(default_factory=lambda: [1.0] * (len(STEPS) + 1))  # accepted over promised
    balance: float = field(default_factory=lambda: BALANCE)
    factor: float = 1.0  # on the time that the curve says drafting takes beyond a plain round
    unlike_plain: int = 0  # drafting rounds since the last plain one
    _expected: float = 1.0  # the curve counts as one round that takes twice a plain one
    _seen: float = 1.0

    def calibrate(self, probabilities: Sequence[float], ranks: Sequence[int]) -> None:
        """Learn from the verified nodes' path probabilities, best first, and the ranks of the accepted ones, from 1."""
        promised, accepted = self.promised, self.accepted
        last = STEP_OF[len(probabilities)]
        for step in range(last + 1):
            promised[step] = MEMORY * promised[step] + (1 - MEMORY) * PRIOR
            accepted[step] = MEMORY * accepted[step] + (1 - MEMORY) * PRIOR
        for rank, probability in enumerate(probabilities, 1):
            promised[STEP_OF[rank]] += probability
        for rank in ranks:
            accepted[STEP_OF[rank]] += 1
        for step in range(last + 1):
            self.scales[step] = accepted[step] / promised[step]

    def book(self, tokens: float, cost: float) -> None:
        """Add a round's tokens beyond its cost to the balance, which can pay for a few more such rounds at most."""
        self.balance = min(2 * BALANCE * max(1.0, cost), self.balance + tokens - cost)

    def compare(self, beyond: float, plain_rounds: float) -> None:
        """Learn from a drafting round that by the curve takes ``beyond`` plain rounds beyond one, and took
        ``plain_rounds`` in all. A line through the origin is fitted, so rounds that cost next to nothing beyond a plain
        one, and tell nothing but noise, count next to nothing. Logarithms are compared, since other programs hold up
        both rounds, and cancel out on average."""
        expected = 1 + self.factor * beyond
        held_up = log(min(HELD_UP, max(1 / HELD_UP, plain_rounds / expected)))
        self._expected = MEMORY * self._expected + (1 - MEMORY) + beyond * beyond
        self._seen = MEMORY * self._seen + (1 - MEMORY) + beyond * (expected * (1 + held_up) - 1)
        self.factor = max(0.1, self._seen / self._expected)


@dataclass(frozen=True, eq=False)
class Offer:
    """What a run could verify in a round: its built tree, the order of the tree's nodes, best first (None where they
    lie so), and by that order the drafter's probabilities of the drafted ones and their chances."""

    tree: DraftTree
    order: Integers | None = None
    probabilities: Chances = field(default_factory=list)
    chances: Chances = field(default_factory=list)


class AutoBudget:
    """The ``BudgetPolicy`` of one run, alone or with others (``share_rows``). It is deterministic, unless it is told
    what its rounds took. It reads the curve's tenth percentiles: a program that ran for some seconds of the measurement
    slowed some sizes more than others, and should not sway a choice."""

    def __init__(self, curve: CostCurve, history: DraftHistory | None = None, pools_rows: bool = True) -> None:
        """``pools_rows``: whether it shares one total of rows with other runs and learns costs from the clock; not
        where another tree would accept other tokens."""
        self.curve, self.history, self.pools_rows = curve, history or DraftHistory(), pools_rows
        # a size that seems dearer than a larger one was disturbed while it was measured
        self._low_ms = dict(zip(curve.rows, [*accumulate(reversed(curve.verify_low_ms), min)][::-1], strict=True))
        self.plain_ms = min(curve.plain_ms, self.pass_ms(1) + curve.overhead_ms)  # as undisturbed as the passes
        self._budgets = [size - 1 for size in curve.rows if size > 1]  # whose passes are measured
        self._passes: dict[int, list[tuple[int, float]]] = {}  # see ``passes``
        cheap = (1 + ALIKE) * curve.draft_at(1)
        self._least = max([nodes for nodes in self._budgets if nodes <= FIRST_NODES and curve.draft_at(nodes) <= cheap],
                          default=1)
        self._most = self._least  # nodes of the next tree
        self._tokens, self._spent_ms = 1.0, self.plain_ms  # of recent rounds
        self.drafter_count, self.built = 0, 0  # of this round
        self._offer: Offer | None = None
        self._beyond_ms = self._cost = 0.0  # of the nodes that it verifies, see ``take``
        # logarithms of the latest plain rounds' milliseconds: older ones stood after a shorter context
        self._plain_logs: deque[float] = deque(maxlen=5)

    def opens(self, drafter_count: int, budget: int) -> tuple[int, int]:
        """See ``BudgetPolicy``. No drafter drafts while drafts have not paid, or where a plain round is due."""
        history = self.history
        drafts = history.balance >= 0 and TRIAL * history.unlike_plain < 1
        self.drafter_count, self.built = (drafter_count, min(budget, self._most)) if drafts else (0, 0)
        return self.drafter_count, self.built

    def cut(self, tree: DraftTree) -> DraftTree:
        """See ``BudgetPolicy``: the most probable nodes of the tree, in its own order."""
        return share_rows([self], [tree])[0]

    def offer(self, tree: DraftTree) -> Offer:
        """What of a built tree could be verified; no chance is larger than the one before."""
        if not self.drafter_count:
            return Offer(tree)
        logprobs = tree.logprobs.tolist()
        best = sorted(logprobs, reverse=True)
        probabilities = [exp(logprob) for logprob in best[1:]]
        scales, chances, least = self.history.scales, [], 1.0
        for rank, probability in enumerate(probabilities, 1):
            least = min(least, probability * scales[STEP_OF[rank]])
            chances.append(least)
        return Offer(tree, best_order(tree) if best != logprobs else None, probabilities, chances)

    def take(self, offer: Offer, nodes: int, beyond_ms: float, round_ms: float, cost: float) -> DraftTree:
        """The tree that is verified: the best ``nodes`` of an offer. The round should take ``round_ms``; by the curve
        alone it takes ``beyond_ms`` more than a plain one, and this run's draft and nodes ``cost`` tokens of plain
        decoding.

        The next tree is built one size larger than what is taken of this one, and at most one size smaller than it was,
        since what pays differs from round to round.
        """
        self._offer, self._beyond_ms, self._cost = offer, beyond_ms, cost
        self._tokens = MEMORY * self._tokens + (1 + sum(offer.chances[:nodes]))
        self._spent_ms = MEMORY * self._spent_ms + round_ms
        self.history.unlike_plain = self.history.unlike_plain + 1 if self.drafter_count else 0
        if not self.drafter_count:
            return offer.tree
        budgets = self._budgets
        smaller = budgets[max(0, bisect_left(budgets, self._most) - 1)] if budgets else 1
        larger = bisect_right(budgets, nodes)
        self._most = max(self._least, smaller, budgets[larger] if larger < len(budgets) else nodes)
        if offer.order is None:
            return beginning(offer.tree, nodes)
        return select(offer.tree, np.sort(offer.order[:nodes + 1]))

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        kept, offer = len(acceptance.keep), self._offer
        if len(tree) > 1 and offer:
            ranks = acceptance.keep if offer.order is None else best_order(tree).argsort()[acceptance.keep]
            self.history.calibrate(offer.probabilities[:len(tree) - 1], ranks[1:].tolist())
        self.history.book(TRIAL * kept + kept - 1, self._cost)

    def took(self, seconds: Mapping[str, float]) -> None:
        """Learn from the seconds of each stage of a round that this run had to itself."""
        milliseconds = 1e3 * sum(seconds.values())
        if not self.drafter_count:
            self._plain_logs.append(log(milliseconds - 1e3 * seconds["draft"]))
        elif self._plain_logs:
            usual = exp(fmean(self._plain_logs))
            self._plain_logs.popleft()  # or one that was held up would make many rounds look cheap
            self.history.compare(self._beyond_ms / self.plain_ms, milliseconds / usual)

    def interrupt(self) -> None:
        """Compare later rounds with no plain round so far: other runs shared one since."""
        self._plain_logs.clear()
        self.history.unlike_plain = 0

    def pass_ms(self, rows: int) -> float:
        """Milliseconds of an undisturbed pass over so many rows."""
        measured = self._low_ms.get(rows)
        return interpolate(self.curve.rows, list(self._low_ms.values()), rows) if measured is None else measured

    def passes(self, given: int) -> list[tuple[int, float]]:
        """The numbers of nodes that are tried beside the ``given`` rows, ascending, with the milliseconds of their
        passes: none, the measured sizes, and steps beyond."""
        if given not in self._passes:
            end = max(0, self.curve.rows[-1] - given)
            sizes = [0, *(size - given for size in self.curve.rows if size > given), *(end + step for step in STEPS)]
            self._passes[given] = [(size, self.pass_ms(given + size)) for size in sizes]
        return self._passes[given]

    @property
    def rate(self) -> float:
        """Tokens per millisecond of recent rounds."""
        return self._tokens / self._spent_ms


def share_rows(runs: Sequence[AutoBudget], trees: Sequence[DraftTree],
               others: Sequence[DraftTree] = ()) -> list[DraftTree]:
    """The part of each run's tree that one pass verifies, beside the whole trees of ``others``."""
    if not runs:
        return []
    requests, given = len(runs) + len(others), len(runs) + sum(map(len, others))
    lead = max(runs, key=lambda run: run.curve.context)  # rows cost the most after the longest context
    factor, passes = lead.history.factor, lead.passes(given)
    plain_ms = lead.plain_ms + lead.pass_ms(requests) - lead.pass_ms(1) + (requests - 1) * lead.curve.overhead_ms
    price = max(requests / plain_ms, sum(run.rate for run in runs) + len(others) / plain_ms)  # tokens of a millisecond
    price *= factor

    offers = [run.offer(tree) for run, tree in zip(runs, trees, strict=True)]
    if len(runs) == 1:
        ranking, owners = offers[0].chances, None
    else:
        ordered = sorted([(chance, -number) for number, offer in enumerate(offers) for chance in offer.chances],
                         reverse=True)
        ranking, owners = [chance for chance, _ in ordered], [-number for _, number in ordered]
    expected = [0.0, *accumulate(ranking)]  # tokens of the best nodes, by their number
    best, best_ms, most = 0, passes[0][1], -inf
    for size, pass_ms in passes:
        if size >= len(expected):
            break
        gain = expected[size] - price * pass_ms
        if gain > most:
            best, best_ms, most = size, pass_ms, gain
    nodes = [best] if owners is None else Counter(owners[:best])

    row_ms = (best_ms - passes[0][1]) / max(1, best)
    drafted = sum(run.built + 1 for run in runs if run.drafter_count)  # rows, by which the curve has drafts too
    drafts_ms = [run.drafter_count * lead.curve.draft_at(drafted - 1) * (run.built + 1) / drafted
                 if run.drafter_count else 0.0 for run in runs]
    beyond_ms = best_ms - lead.pass_ms(requests) + sum(drafts_ms)
    return [run.take(offer, nodes[number], beyond_ms, plain_ms + factor * beyond_ms,
                     factor * (draft_ms + row_ms * nodes[number]) * requests / plain_ms)
            for number, (run, offer, draft_ms) in enumerate(zip(runs, offers, drafts_ms, strict=True))]


class SharedRows:
    """The ``BudgetAllocator``: runs at ``auto`` share one total of rows with all runs of their rounds."""

    def divide(self, policies: Sequence[BudgetPolicy], trees: Sequence[DraftTree]) -> list[DraftTree]:
        shared = {number: policy for number, policy in enumerate(policies) if self.pools_rows(policy)}
        verified = [tree if number in shared else policy.cut(tree)
                    for number, (policy, tree) in enumerate(zip(policies, trees, strict=True))]
        others = [tree for number, tree in enumerate(verified) if number not in shared]
        parts = share_rows(list(shared.values()), [trees[number] for number in shared], others)
        for number, part in zip(shared, parts, strict=True):
            verified[number] = part
        return verified

    def ended(self, policies: Sequence[BudgetPolicy], seconds: Mapping[str, float]) -> None:
        for policy in filter(self.pools_rows, policies):
            policy.interrupt() if len(policies) > 1 else policy.took(seconds)

    def pools_rows(self, policy: BudgetPolicy) -> TypeGuard[AutoBudget]:
        return isinstance(policy, AutoBudget) and policy.pools_rows


def best_order(tree: DraftTree) -> Integers:
    """All nodes by descending log probability, the earlier first among equals, (n,) int32. Any prefix of this order is
    a tree with the root first, since no node is more probable than its parent, or comes before it."""
    return (-tree.logprobs).argsort(kind="stable").astype(np.int32)
