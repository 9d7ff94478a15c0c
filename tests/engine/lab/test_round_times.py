"""What budget=auto learns from its rounds of a cost curve that was measured beside other work."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from engine.decoding.loop import decode
from engine.lab.accounts import DraftingLedger
from engine.lab.adaptive import AdaptiveBudget
from engine.lab.cost import CostCurve
from engine.lab.in_company import BudgetInCompany, PaceInCompany
from engine.lab.joint_costs import JointCosts
from engine.lab.round_times import FIRST_LOOK, KNOWN, DraftExcess, DraftExcesses, RunTimes
from engine.records import Request
from tests.engine.lab.recorded_drafts import drafted_texts, milliseconds
from tests.engine.lab.test_accounts import LOSING, PAYING, cut
from tests.engine.material import drafters_of, text
from tests.engine.toy import ToyTarget

TOKENS = 64


def disturbed(curve: CostCurve, factor: float) -> CostCurve:
    """What drafting takes beyond a plain round is so many times what it takes in truth."""
    one = curve.verify_low_ms[0]
    passes = tuple(one + factor * (each - one) for each in curve.verify_low_ms)
    return replace(curve, verify_ms=passes, verify_low_ms=passes, verify_high_ms=passes,
                   draft_ms=tuple(factor * each for each in curve.draft_ms))


class Machine:
    """Tells a pace what its rounds took, beside work that holds some of them up."""

    def __init__(self, pace: AdaptiveBudget, draws: random.Random | None) -> None:
        self.pace, self.draws = pace, draws

    def took(self, seconds: Mapping[str, float]) -> None:
        held_up = self.draws.lognormvariate(0, 0.3) * (3 if self.draws.random() < 0.05 else 1) if self.draws else 1.0
        self.pace.took({stage: held_up * value for stage, value in seconds.items()})


def of_plain(rig: str, truth: CostCurve, believed: CostCurve, draws: random.Random | None = None,
             told: bool = True) -> float:
    """The time of auto over all texts of a rig, one after the other, as a part of plain decoding's."""
    ledger, excess, texts, spent = DraftingLedger(), DraftExcess(), cut(drafted_texts(rig), TOKENS), 0.0
    for each in texts:
        pace = AdaptiveBudget(believed, ledger, excess)
        spent += milliseconds(each, pace, truth, Machine(pace, draws).took if told else None)
    return spent / sum(len(each.kept) * truth.plain_ms for each in texts)


def test_a_curve_that_makes_drafting_too_dear_is_found_out() -> None:
    rig, truth = PAYING["demo"]
    believed = disturbed(truth, 2.5)
    assert of_plain(rig, truth, truth) < 0.5
    assert of_plain(rig, truth, believed, told=False) > 0.7, "as long as the process lives"
    assert of_plain(rig, truth, believed) < 0.62
    assert of_plain(rig, truth, believed, random.Random(1)) < 0.66, "on a machine that stays busy too"


@pytest.mark.parametrize("case", ["dear rows", "less dear rows", "a dear drafter"])
def test_a_curve_that_makes_drafting_too_cheap_is_found_out(case: str) -> None:
    rig, truth = LOSING[case]
    believed = disturbed(truth, 0.4)
    unaware = of_plain(rig, truth, believed, told=False)
    assert unaware > 1.08 and of_plain(rig, truth, believed) - 1 < 0.6 * (unaware - 1)


@pytest.mark.parametrize("case", [*PAYING, *LOSING])
def test_where_the_curve_is_right_nothing_is_lost(case: str) -> None:
    rig, truth = {**PAYING, **LOSING}[case]
    before = of_plain(rig, truth, truth, told=False)
    assert of_plain(rig, truth, truth) <= before + 0.006
    noisy = [of_plain(rig, truth, truth, random.Random(seed)) for seed in range(3)]
    assert sum(noisy) / 3 <= before + 0.03, "nor by much where the machine is busy"


def test_the_factor_is_learnt_from_rounds_with_plain_ones_before_them() -> None:
    excess, draws = DraftExcess(), random.Random(2)
    run = RunTimes(excess)
    run.drafted(0.8, 26.0)
    assert excess.factor == 1.0, "there was no plain round to compare it with"
    for _ in range(40):
        for _ in range(3):
            run.plain(20.0 * draws.lognormvariate(0, 0.2))
        run.drafted(0.8, 26.0 * draws.lognormvariate(0, 0.2))
    assert excess.factor == pytest.approx(0.3 / 0.8, abs=0.15)
    before = excess.factor
    run.drafted(0.8, 1e6)
    assert before < excess.factor < before + 0.15, "one that was held up says little"


@pytest.mark.parametrize("company", [False, True])
def test_rounds_after_company_are_not_compared_with_those_before_it(company: bool) -> None:
    (_, curve), excess, allotment = PAYING["demo"], DraftExcess(), BudgetInCompany(JointCosts())
    pace, other = PaceInCompany(curve, excess=excess), PaceInCompany(curve)
    for _ in range(3):
        excess._unseen = 10**9  # a plain round is due
        allotment.opens([pace])
        assert pace.opens(1, 16) == (0, 0)
        allotment.ended([pace], {"draft": 0.0, "verify": 0.01})
    if company:
        allotment.opens([pace, other])
    excess._unseen = 0
    allotment.opens([pace])
    assert pace.opens(1, 16)[0] == 1
    allotment.ended([pace], {"draft": 0.5, "verify": 0.5})
    assert (excess.factor == 1.0) == company


def test_who_drafts_all_the_time_compares_ever_more_rarely() -> None:
    excess = DraftExcess()
    run, plain = RunTimes(excess), []
    for place in range(20 * FIRST_LOOK):
        if excess.due:
            plain.append(place)
            run.plain(10.0)
        else:
            run.drafted(0.5, 15.0)
    every_64 = [64 + 65 * count for count in range(KNOWN + 1)]
    assert plain == [*every_64, every_64[-1] + 129, every_64[-1] + 129 + 257] and excess.factor == pytest.approx(1.0)


def test_who_drafts_all_the_time_learns_what_a_curve_hides_within_a_long_text() -> None:
    excess = DraftExcess()
    run = RunTimes(excess)
    for _ in range(14 * FIRST_LOOK):
        if excess.due:
            run.plain(10.0)
        else:
            run.drafted(1.0, 30.0)  # twice what the curve says, which is one plain round beyond one
    assert excess.factor > 1.6


def test_a_pace_makes_the_plain_round_that_is_due() -> None:
    rig, truth = PAYING["demo"]
    excess = DraftExcess()
    for _ in range(FIRST_LOOK):
        excess.drafted()
    pace = AdaptiveBudget(truth, excess=excess)
    assert pace.opens(1, 16) == (0, 0)
    pace.took({"draft": 0.001, "verify": 0.01})
    assert pace.opens(1, 16)[0] == 1


def test_factors_are_by_curve_and_drafters_and_outlive_a_run() -> None:
    (_, one), (_, other), drafter = PAYING["demo"], PAYING["tiles"], object()
    found = DraftExcesses()
    assert found.of(one, "ddtree", [drafter]) is found.of(replace(one), "ddtree", [drafter])
    assert len({id(each) for each in (found.of(one, "ddtree", [drafter]), found.of(other, "ddtree", [drafter]),
                                      found.of(one, "joint", [drafter]), found.of(one, "ddtree", [object()]))}) == 4


class Counting(DraftExcess):
    """Counts what it is told of."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = [0, 0]

    def plain(self) -> None:
        self.counts[0] += 1
        super().plain()

    def drafted(self) -> None:
        self.counts[1] += 1
        super().drafted()


@pytest.mark.parametrize("draft_ms", [0.1, 3.0, 100.0])
def test_the_loop_tells_a_run_of_its_own_rounds_and_the_text_stays(draft_ms: float) -> None:
    target, (_, curve) = ToyTarget(), PAYING["demo"]
    asked = Request((1, 2, 3), method="ddtree", budget=32, max_tokens=60, pace="auto")
    plain = text(decode(replace(asked, method="autoregressive"), target, []))
    excess = Counting()
    pace = PaceInCompany(replace(curve, draft_ms=(draft_ms,) * len(curve.rows)), excess=excess)
    rounds = list(decode(asked, target, drafters_of("ddtree", target), pace, BudgetInCompany(JointCosts())))
    drafting = sum(bool(made.drafts) for made in rounds)
    assert text(rounds) == plain and excess.counts == [len(rounds) - drafting, drafting]
