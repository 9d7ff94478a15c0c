"""budget=auto for runs that come and go. Alone in a round, a run prices its own rows (``adaptive.py``), exactly as if
no other had ever come; in company, the runs share one total of rows (``shared_budget.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.decoding.budget_policy import BudgetPolicy
from engine.lab.accounts import DraftingLedger
from engine.lab.adaptive import AdaptiveBudget
from engine.lab.cost import CostCurve
from engine.lab.joint_costs import JointCosts
from engine.lab.round_times import DraftExcess
from engine.lab.shared_budget import SharedBudget
from engine.lab.shared_pace import SharedPace
from engine.records import Acceptance, DraftTree

FAIR = 0.85  # the least part that a run gets of what it would get alone in an equal share of the time


class PaceInCompany:
    """The ``BudgetPolicy`` of one run: its own alone, or a share in company, as ``enter`` says for each round."""

    def __init__(self, lone: CostCurve, promise: float = 0.0, ledger: DraftingLedger | None = None,
                 excess: DraftExcess | None = None) -> None:
        self.alone, self.among = AdaptiveBudget(lone, ledger, excess), SharedPace(promise)
        self._now: BudgetPolicy = self.alone

    def enter(self, company: bool) -> None:
        """Called when a round begins, with whether other runs take part in it."""
        if company:
            self.alone.interrupted()
        self._now = self.among if company else self.alone

    def opens(self, drafters: int, budget: int) -> tuple[int, int]:
        """See ``BudgetPolicy``."""
        return self._now.opens(drafters, budget)

    def cut(self, tree: DraftTree) -> DraftTree:
        """See ``BudgetPolicy``."""
        return self._now.cut(tree)

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """See ``BudgetPolicy``."""
        self._now.learn(tree, acceptance)


class BudgetInCompany:
    """An ``Allotment`` for a target whose runs come and go. It learns the cost of rounds from the clock, so budgets
    differ from time to time; texts do not."""

    def __init__(self, costs: JointCosts) -> None:
        self._costs, self._shared = costs, SharedBudget(costs.curve, FAIR)
        self._rows = self._drafting = 0  # rows of the round, and requests that draft; 0 where its draft teaches nothing

    def policy(self, promise: float = 0.0) -> PaceInCompany:
        """See ``Allotment``: for a run that brings no curve of its own."""
        return PaceInCompany(self._costs.curve(1), promise)

    def got(self, policy: BudgetPolicy) -> tuple[float, float]:
        """See ``Allotment``: so far in company."""
        return self._shared.got(policy.among) if isinstance(policy, PaceInCompany) else (0.0, 0.0)

    def shares(self, policy: BudgetPolicy) -> bool:
        """See ``Allotment``."""
        return isinstance(policy, PaceInCompany)

    def opens(self, policies: Sequence[BudgetPolicy]) -> None:
        """See ``Allotment``."""
        for each in policies:
            if isinstance(each, PaceInCompany):
                each.enter(len(policies) > 1)
        if self._in_company(policies):
            self._shared.opens(_among(policies))

    def cut(self, policies: Sequence[BudgetPolicy], trees: Sequence[DraftTree]) -> list[DraftTree]:
        """See ``Allotment``."""
        if not self._in_company(policies):
            return list(trees)
        paces = [each for each in policies if isinstance(each, PaceInCompany)]
        others = [tree for each, tree in zip(policies, trees, strict=True) if not self.shares(each) and len(tree) > 1]
        self._drafting = 0 if others else sum(each.among.drafts for each in paces)  # others' drafts cannot be predicted
        found = self._shared.cut(_among(policies), trees)
        self._rows = sum(map(len, found))
        return found

    def ended(self, policies: Sequence[BudgetPolicy], seconds: Mapping[str, float]) -> None:
        """See ``Allotment``."""
        if len(policies) == 1 and isinstance(policies[0], PaceInCompany):
            policies[0].alone.took(seconds)
        if not self._in_company(policies):
            return
        self._shared.ended(_among(policies), seconds)
        self._costs.learn_pass(len(policies), self._rows, 1e3 * seconds["verify"])
        if self._drafting:
            self._costs.learn_draft(self._drafting, self._shared.draft_ms, 1e3 * seconds["draft"])

    def _in_company(self, policies: Sequence[BudgetPolicy]) -> bool:
        """Whether rows are divided among the requests of a round with these policies."""
        return len(policies) > 1 and any(map(self.shares, policies))


def _among(policies: Sequence[BudgetPolicy]) -> list[BudgetPolicy]:
    return [each.among if isinstance(each, PaceInCompany) else each for each in policies]
