"""budget=auto under load: of all requests' trees the nodes with the largest chance of being kept are verified, as many
in all as pay in a joint pass on this machine.

A round takes the total with the largest E(n) − λ T(n), as the budget of one request does (``adaptive.py``); here E are
the expected tokens of all requests, T the measured pass over all their rows, and λ is the tokens per millisecond of all
together lately, never less than that of rounds without a drafter. So one request may get forty nodes and another
none. Who drafts is chosen alike: those whose drafts brought most, as many as are worth the time of a joint draft; the
others pause, and are tried again ever more rarely. A request that has less than it was promised drafts, and the nodes
that it needs to catch up are given before all others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from engine.decoding.budget_policy import BudgetPolicy
from engine.lab.adaptive import (
    FIRST_BUDGET,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    PAUSE_GROWTH,
    RATE_MEMORY,
    WHOLE_TREES,
    PromiseTally,
    best_order,
)
from engine.lab.cost import CostCurve, LoadCost
from engine.lab.sharing import Chances, best_drafting, best_total, ranked
from engine.records import Acceptance, DraftTree, Integers
from engine.trees.tree import beginning, select

STEPS = (1, 2, 3, 5, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025)  # of a tree, for calibration
STEP_OF = np.asarray([bisect_right(STEPS, place) for place in range(STEPS[-1])])
OPENING_ROUNDS, OPENING_GAIN = 2.0, 1.5  # rounds, and times the rate of plain ones, that drafting begins with
FIRST_DRAFTS = 2  # drafts of a request before their yield is judged
USUAL_DRAFTS, LAST = 4.0, 0.2  # drafts that the usual yield counts as; weight of the last draft in what is expected
WORTH_MEMORY, USUAL_MEMORY = 0.9, 0.97  # weight of the previous draft: of the request's own, of all requests'
HOPELESS = 0.02  # a node with a smaller chance helps nobody to keep up


class SharedPace:
    """The ``BudgetPolicy`` of one request that shares: what its trees promise, and what was accepted of it."""

    def __init__(self, promise: float) -> None:
        self.promise, self.tokens, self.seconds = promise, 0, 0.0
        self.drafts, self.drafters, self.room = True, 1, FIRST_BUDGET
        self._drafted, self._brought, self._last = 0.0, 0.0, 0.0  # recent drafts, their yield, the last one's
        self._tried = self._pause = self._paused = self._whole_trees = 0
        self._tally = PromiseTally(STEPS)
        self._order: Integers | None = None  # of the built tree, where its nodes do not lie best first
        self._raw: Chances = np.zeros(0)

    def opens(self, drafters: int, budget: int) -> tuple[int, int]:
        """See ``BudgetPolicy``."""
        if not self.drafts:
            return 0, 0
        self.drafters = drafters
        return drafters, min(budget, self.room)

    def cut(self, tree: DraftTree) -> DraftTree:
        """See ``BudgetPolicy``: the allotment cuts the tree, once it has seen all of them."""
        return tree

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """See ``BudgetPolicy``."""
        self.tokens += len(acceptance.keep)
        if len(tree) == 1:
            return
        kept = acceptance.keep if self._order is None else best_order(tree).argsort()[acceptance.keep]
        promised = np.bincount(STEP_OF[:len(tree)], np.concatenate([np.ones(1), self._raw[:len(tree) - 1]]))
        self._tally.learn(promised.tolist(), kept.tolist())

    def chances(self, tree: DraftTree) -> Chances:
        """Chances of a built tree's nodes, best first: the drafter's probability, scaled by how often nodes in such
        places came true."""
        falling = bool((tree.logprobs[1:] <= tree.logprobs[:-1]).all())
        self._order = None if falling else best_order(tree)
        logprobs = tree.logprobs if self._order is None else tree.logprobs[self._order]
        self._raw = np.exp(logprobs[1:STEPS[-1]].astype(np.float64))
        scaled = self._raw * np.asarray(self._tally.scales)[STEP_OF[1:len(self._raw) + 1]]
        fallen: Chances = np.minimum.accumulate(np.minimum(scaled, 1.0))
        return fallen

    def owed(self, chances: Chances, seconds: float) -> int:
        """How many nodes it needs, as far as they help, to keep its promise after a round of this length."""
        missing = self.promise * (self.seconds + seconds) - self.tokens - 1
        if self.promise == 0 or missing <= 0:
            return 0
        helpful = int((chances >= HOPELESS).sum())
        return min(helpful, int(np.searchsorted(chances.cumsum(), missing)) + 1)

    def taken(self, tree: DraftTree, nodes: int) -> DraftTree:
        """The most probable nodes of the built tree, in its own order. Trees are built no larger than the last choice,
        and larger when all there was has been chosen some times in a row."""
        whole = 0 < len(tree) - 1 == nodes
        self._whole_trees = self._whole_trees + 1 if whole else 0
        grown = STEPS[min(bisect_right(STEPS, nodes + 1), len(STEPS) - 1)] - 1
        self.room = max(FIRST_BUDGET, grown if self._whole_trees >= WHOLE_TREES else nodes)
        if self._order is None:
            return beginning(tree, nodes)
        return select(tree, np.sort(self._order[:nodes + 1]))

    def weigh(self, net: float) -> None:
        """Take note that a draft yielded so many tokens beyond the time of its rows."""
        self._tried += 1
        self._drafted = WORTH_MEMORY * self._drafted + 1
        self._brought = WORTH_MEMORY * self._brought + net
        self._last = net

    def worth(self, usual: float) -> float:
        """What its next draft may yield, where any request's yields ``usual``: a few drafts say little about their
        request, and one says something about the next. After a pause only the last one counts."""
        if self._pause:
            return self._last
        own = (USUAL_DRAFTS * usual + self._brought) / (USUAL_DRAFTS + self._drafted)
        return own + LAST * (self._last - own) if self._drafted else own

    @property
    def wanted(self) -> bool:
        """Whether it drafts whatever the yield: at first, after its pause, and while its promise is not kept."""
        untried = self._tried < FIRST_DRAFTS or self._paused >= self._pause > 0
        return untried or self.promise * self.seconds > self.tokens

    def settle(self, drafts: bool) -> None:
        """Whether it drafts this round. A request whose drafts no longer pay pauses, ever longer, until one pays again;
        what was seen before is then forgotten."""
        if drafts:
            if self._pause and not self.wanted:
                self._drafted, self._brought, self._pause = 1.0, self._last, 0
            self._paused = 0
        else:
            if self.drafts:
                self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, PAUSE_GROWTH * self._pause))
            self._paused += 1
        self.drafts = drafts


class SharedBudget:
    """An ``Allotment`` over the cost of joint passes, by requests at once. Deterministic but for promises, which go by
    the clock: the same costs and the same rounds make the same choices."""

    def __init__(self, costs: LoadCost) -> None:
        self._costs = costs
        self._curves: dict[int, CostCurve] = {}
        self._tokens, self._rounds = OPENING_ROUNDS * OPENING_GAIN, OPENING_ROUNDS  # recent ones, against plain rounds
        self._drafted, self._brought = 0.0, 0.0  # recent drafts, and what they yielded
        self._seconds = 0.0

    def policy(self, promise: float = 0.0) -> SharedPace:
        """See ``Allotment``."""
        return SharedPace(promise)

    def got(self, policy: BudgetPolicy) -> tuple[float, float]:
        """See ``Allotment``."""
        if not isinstance(policy, SharedPace) or not policy.seconds:
            return 0.0, 0.0
        return policy.promise, policy.tokens / policy.seconds

    def opens(self, policies: Sequence[BudgetPolicy]) -> None:
        """See ``Allotment``."""
        sharing = [each for each in policies if isinstance(each, SharedPace)]
        usual = self._brought / max(1.0, self._drafted)
        order = sorted(sharing, key=lambda each: (not each.wanted, -each.worth(usual)))
        first = sum(each.wanted for each in order)
        worths = [each.worth(usual) for each in order[first:]]
        draft_ms = [self._draft_ms(order[:count]) for count in range(first, len(order) + 1)]
        drafting = order[:first + best_drafting(worths, draft_ms, self._price(len(policies)))]
        for each in sharing:
            each.settle(each in drafting)

    def cut(self, policies: Sequence[BudgetPolicy], trees: Sequence[DraftTree]) -> list[DraftTree]:
        """See ``Allotment``."""
        sharing = [(place, each) for place, each in enumerate(policies) if isinstance(each, SharedPace)]
        paces, own = [each for _, each in sharing], [trees[place] for place, _ in sharing]
        chances = [pace.chances(tree) for pace, tree in zip(paces, own, strict=True)]
        ranking = ranked(chances, [pace.owed(each, self._seconds) for pace, each in zip(paces, chances, strict=True)])
        given = sum(map(len, trees)) - sum(map(len, own)) + len(own)
        curve, price = self._curve(len(policies)), self._price(len(policies))
        nodes = best_total(ranking, given, curve, price)
        shares = ranking.shares(nodes, len(own))
        row_price = price * (curve.verify_low_at(given + nodes) - curve.verify_low_at(given)) / max(1, nodes)
        found = list(trees)
        for (place, pace), each, share in zip(sharing, chances, shares, strict=True):
            if pace.drafts:
                net = float(each[:share].sum()) - row_price * share
                pace.weigh(net)
                self._drafted, self._brought = USUAL_MEMORY * self._drafted + 1, USUAL_MEMORY * self._brought + net
            found[place] = pace.taken(trees[place], share)
        self._learn(paces, len(trees) + float(ranking.reached[nodes]), curve, given + nodes)
        return found

    def ended(self, policies: Sequence[BudgetPolicy], seconds: float) -> None:
        """See ``Allotment``."""
        self._seconds = seconds
        for each in policies:
            if isinstance(each, SharedPace):
                each.seconds += seconds

    def _learn(self, paces: Sequence[SharedPace], tokens: float, curve: CostCurve, rows: int) -> None:
        """Take note of what recent time yielded, against the tokens that plain rounds of every request would have
        yielded."""
        drafting = [each for each in paces if each.drafts]
        spent = self._draft_ms(drafting) + curve.verify_low_at(rows) + curve.overhead_ms if drafting else curve.plain_ms
        self._tokens = RATE_MEMORY * self._tokens + tokens / curve.requests
        self._rounds = RATE_MEMORY * self._rounds + spent / curve.plain_ms

    def _price(self, requests: int) -> float:
        """Tokens per millisecond that the time would yield elsewhere."""
        return max(1.0, self._tokens / self._rounds) * requests / self._curve(requests).plain_ms

    def _draft_ms(self, drafting: Sequence[SharedPace]) -> float:
        """Milliseconds of a joint draft for these requests."""
        if not drafting:
            return 0.0
        curve, drafters = self._curve(len(drafting)), sum(each.drafters for each in drafting) / len(drafting)
        return drafters * curve.draft_at(max(each.room for each in drafting))

    def _curve(self, requests: int) -> CostCurve:
        if requests not in self._curves:
            self._curves[requests] = self._costs(requests)
        return self._curves[requests]
