"""budget=auto under load: verifies the most probable nodes of all requests' trees, as many in all as pay in a joint
pass on this machine.

A round takes the total with the largest E(n) − λ T(n), as one request's budget does (``adaptive.py``). Here E are the
expected tokens of all requests, T is the measured pass over all their rows, and λ is the tokens per millisecond of all
requests in recent rounds, at least that of rounds without a drafter. So one request may get forty nodes and another
none. The requests that draft are chosen in the same way: those whose drafts yielded most, as many as are worth the time
of a joint draft; the others pause, and are tried again after ever longer pauses. A request that has had less than it
was promised, or less than its share of what it would get alone, drafts, and gets the nodes that it needs to catch up
before all others. Requests at budgets of their own verify whole trees: their rows count in every total, and the tokens
that their nodes promise count in the rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.decoding.budget_policy import BudgetPolicy
from engine.lab.adaptive import FIRST_BUDGET, RATE_MEMORY
from engine.lab.cost import CostCurve, LoadCost
from engine.lab.shared_pace import SharedPace
from engine.lab.sharing import best_drafting, best_total, ranked
from engine.records import DraftTree

OPENING_ROUNDS, OPENING_GAIN = 2.0, 1.5  # drafting begins as if after so many rounds at this multiple of plain's rate
USUAL_MEMORY = 0.97  # weight of the previous draft of any request


class SharedBudget:
    """An ``Allotment`` by the cost of joint passes for each number of requests. The same costs and the same rounds make
    the same choices, except for promises, which depend on the clock."""

    def __init__(self, costs: LoadCost, fair: float = 0.0) -> None:
        """``fair`` is the least part that each request gets of what it could expect alone in an equal share of the
        time; the nodes for that come before all others. 0 guarantees nothing."""
        self._curve, self._fair = costs, fair
        self._others = 0  # how many requests at budgets of their own drafted in the last round
        self.draft_ms = 0.0  # what this round's draft should take
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

    def shares(self, policy: BudgetPolicy) -> bool:
        """See ``Allotment``."""
        return isinstance(policy, SharedPace)

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
        self.draft_ms = self._draft_ms(drafting)

    def cut(self, policies: Sequence[BudgetPolicy], trees: Sequence[DraftTree]) -> list[DraftTree]:
        """See ``Allotment``."""
        sharing = [(place, each) for place, each in enumerate(policies) if isinstance(each, SharedPace)]
        paces, own = [each for _, each in sharing], [trees[place] for place, _ in sharing]
        chances = [pace.chances(tree) for pace, tree in zip(paces, own, strict=True)]
        for pace, each in zip(paces, chances, strict=True) if self._fair else ():
            if pace.drafts:
                pace.expect(each, self._curve(1))
        owed = [pace.owed(each, self._seconds) for pace, each in zip(paces, chances, strict=True)]
        whole = [tree for tree, policy in zip(trees, policies, strict=True) if not isinstance(policy, SharedPace)]
        self._others = sum(len(tree) > 1 for tree in whole)
        given = sum(map(len, whole)) + len(own)
        curve, price, ranking = self._curve(len(policies)), self._price(len(policies)), ranked(chances, owed)
        nodes = best_total(ranking, given, curve, price)
        shares = ranking.shares(nodes, len(own))
        row_price = price * (curve.verify_low_at(given + nodes) - curve.verify_low_at(given)) / max(1, nodes)
        self._weigh(paces, [float(each[:share].sum()) - row_price * share
                            for each, share in zip(chances, shares, strict=True)])
        promised = sum(float(np.exp(tree.logprobs).sum()) for tree in whole)
        spent = self._learn(promised + len(own) + float(ranking.reached[nodes]), curve, given + nodes)
        found = list(trees)
        for (place, pace), share in zip(sharing, shares, strict=True):
            pace.entitle(self._fair * spent / len(policies))
            found[place] = pace.taken(trees[place], share)
        return found

    def ended(self, policies: Sequence[BudgetPolicy], seconds: Mapping[str, float]) -> None:
        """See ``Allotment``."""
        self._seconds = sum(seconds.values())
        for each in policies:
            if isinstance(each, SharedPace):
                each.seconds += self._seconds

    def _weigh(self, paces: Sequence[SharedPace], nets: Sequence[float]) -> None:
        """Take note of what each draft yielded, in tokens net of its rows' time."""
        for pace, net in zip(paces, nets, strict=True):
            if pace.drafts:
                pace.weigh(net)
                self._drafted, self._brought = USUAL_MEMORY * self._drafted + 1, USUAL_MEMORY * self._brought + net

    def _learn(self, tokens: float, curve: CostCurve, rows: int) -> float:
        """Take note of a round's tokens against those that plain rounds of all requests would have yielded in its time;
        return the milliseconds that the round should take."""
        drafted = self.draft_ms > 0 or rows > curve.requests
        spent = self.draft_ms + curve.verify_low_at(rows) + curve.overhead_ms if drafted else curve.plain_ms
        self._tokens = RATE_MEMORY * self._tokens + tokens / curve.requests
        self._rounds = RATE_MEMORY * self._rounds + spent / curve.plain_ms
        return spent

    def _price(self, requests: int) -> float:
        """The price of a millisecond: the tokens that it would yield elsewhere."""
        return max(1.0, self._tokens / self._rounds) * requests / self._curve(requests).plain_ms

    def _draft_ms(self, drafting: Sequence[SharedPace]) -> float:
        """Milliseconds of a joint draft for these requests and those that draft in any case, taken to have one drafter
        each."""
        count = len(drafting) + self._others
        if not count:
            return 0.0
        drafters = (sum(each.drafters for each in drafting) + self._others) / count
        return drafters * self._curve(count).draft_at(max((each.room for each in drafting), default=FIRST_BUDGET))
