"""Makes the budget policies of a rig's runs at the pace ``auto``."""

from __future__ import annotations

from collections.abc import Sequence

from engine.decoding.budget_policy import BudgetPolicy
from engine.decoding.plan import Drafter
from engine.lab.accounts import DraftingLedgers
from engine.lab.adaptive import AdaptiveBudget
from engine.lab.cost import CostCurve
from engine.lab.in_company import BudgetInCompany, PaceInCompany
from engine.lab.joint_costs import JointCosts
from engine.lab.round_times import DraftExcesses
from engine.methods import METHODS
from engine.records import Request
from engine.runtime.rigs.cost import CostBook


class PacePolicies:
    """Budget policies from the rig's cost curves. Only a run that has the rig to itself measures a curve, before its
    first round; while others run, nothing is measured, since they would wait for it."""

    def __init__(self, costs: CostBook) -> None:
        self._costs, self._joint = costs, JointCosts()
        self._ledgers, self._excesses = DraftingLedgers(), DraftExcesses()

    def unshared(self, request: Request, drafters: Sequence[Drafter]) -> BudgetPolicy:
        """The policy of a run that shares no rounds. Measures for about a second where no curve of such a context
        length is known yet."""
        return self._pace(self._costs.ready(_middle(request), request.sampling), request, drafters)

    def joinable(self, request: Request, drafters: Sequence[Drafter], company: bool) -> BudgetPolicy | None:
        """The policy of a run that others may join. Without ``company`` it measures like ``unshared``; with company
        and no curve measured so far it is None, and the allotment makes one."""
        middle = _middle(request)
        curve = self._costs.known(middle) if company else self._costs.ready(middle, request.sampling)
        if curve:
            self._joint.rest_on(curve, self._costs.known_load(middle))
        elif METHODS[request.method].follows_text:
            return None
        return self._pace(curve or self._joint.curve(1), request, drafters)

    def _pace(self, curve: CostCurve, request: Request, drafters: Sequence[Drafter]) -> BudgetPolicy:
        """A method that would accept other tokens from another tree shares no total, has accounts of its own and learns
        nothing from the clock, so that the curve alone, once measured, decides what it drafts."""
        if not METHODS[request.method].follows_text:
            return AdaptiveBudget(curve)
        ledger = self._ledgers.of(request.method, drafters)
        return PaceInCompany(curve, ledger=ledger, excess=self._excesses.of(curve, request.method, drafters))

    def allotment(self) -> BudgetInCompany:
        """What divides the rows of shared rounds among the runs."""
        return BudgetInCompany(self._joint)


def _middle(request: Request) -> int:
    """The context length in the middle of the text, in tokens."""
    return len(request.prompt_ids) + request.max_tokens // 2
