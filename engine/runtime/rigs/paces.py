"""Who decides the budgets of a rig's runs at their own pace."""

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


class Paces:
    """Over what is known of the rig's costs. Only a run that has the rig to itself measures any, before its first
    round; in company nobody waits for that."""

    def __init__(self, costs: CostBook) -> None:
        self._costs, self._joint = costs, JointCosts()
        self._ledgers, self._excesses = DraftingLedgers(), DraftExcesses()

    def lone(self, request: Request, drafters: Sequence[Drafter]) -> BudgetPolicy:
        """Of a run that shares its rounds with nobody; a second where the costs of such a length are not known yet."""
        return self._pace(self._costs.ready(_middle(request), request.sampling), request, drafters)

    def visited(self, request: Request, drafters: Sequence[Drafter], company: bool) -> BudgetPolicy | None:
        """Of a run whose rounds others may come to share; as ``lone`` where there is no ``company`` yet. None where
        nothing was measured so far: the allotment knows how to begin."""
        middle = _middle(request)
        curve = self._costs.known(middle) if company else self._costs.ready(middle, request.sampling)
        if curve:
            self._joint.rest_on(curve, self._costs.known_load(middle))
        elif METHODS[request.method].follows_text:
            return None
        return self._pace(curve or self._joint.curve(1), request, drafters)

    def _pace(self, curve: CostCurve, request: Request, drafters: Sequence[Drafter]) -> BudgetPolicy:
        """What would accept otherwise from another tree takes no part in the total and learns nothing by the clock: its
        text may depend neither on others nor on the time."""
        ledger = self._ledgers.of(request.method, drafters)
        if not METHODS[request.method].follows_text:
            return AdaptiveBudget(curve, ledger)
        return PaceInCompany(curve, ledger=ledger, excess=self._excesses.of(curve, request.method, drafters))

    def allotment(self) -> BudgetInCompany:
        """For the rounds that runs share."""
        return BudgetInCompany(self._joint)


def _middle(request: Request) -> int:
    """Tokens before the round in the middle of the text."""
    return len(request.prompt_ids) + request.max_tokens // 2
