"""budget=auto over texts whose drafts were recorded, at costs that are written down: what it loses and keeps."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from engine.budget import auto
from engine.budget.auto import AutoBudget, DraftHistory
from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import BudgetPolicy
from tests.engine.budget.recorded_drafts import DraftedText, drafted_texts, milliseconds

ROWS = (1, 2, 3, 4, 5, 8, 9, 12, 13, 16, 17, 25, 32, 33)
PHRASES, NETWORK, SLOW, FAST = (0.08, 0.034), (12.0, 0.0), (15.0, 0.0), (3.5, 0.0)  # ms of a draft, and of each node


def curve(passes: dict[int, float], draft: tuple[float, float]) -> CostCurve:
    """Passes in milliseconds by rows."""
    verify = tuple(float(value) for value in np.interp(ROWS, list(passes), list(passes.values())))
    drafts = tuple(draft[0] + draft[1] * (rows - 1) for rows in ROWS)
    return CostCurve("rig", "machine", "float32", "greedy", 64, 5, ROWS, verify, verify, verify, drafts, 0.3,
                     verify[0] + 0.3)


FOUR_BITS = {1: 11.0, 2: 12, 4: 14, 5: 18, 8: 22, 9: 24, 17: 40, 33: 75}
PAYING = {
    "bfloat16": ("smollm2", curve({1: 25, 2: 27, 3: 29, 5: 31.5, 9: 41, 17: 58, 33: 90}, PHRASES)),
    "four bits": ("smollm2", curve(FOUR_BITS, PHRASES)),
    "four bits, AMD": ("smollm2", curve({1: 8.1, 2: 9.4, 3: 10.4, 4: 11.2, 5: 14.9, 8: 16.1, 9: 19.1, 12: 21.4, 17: 28,
                                         25: 38, 33: 50}, PHRASES)),
    "tiles": ("smollm2", curve({1: 25, 5: 27, 9: 29, 17: 36, 33: 50}, PHRASES)),
    "demo, cheap rows": ("demo", curve({1: 3.2, 2: 3.4, 5: 3.7, 9: 4.0, 17: 4.9, 33: 6.3}, (2.3, 0.01))),
    "demo": ("demo", curve({1: 2.4, 2: 2.9, 5: 3.6, 9: 4.6, 17: 6.5, 33: 11}, FAST)),
}
LOSING = {
    "expensive rows": ("smollm2", curve({1: 28.6, 2: 60, 5: 110, 9: 197, 17: 309, 33: 500}, PHRASES)),
    "less expensive rows": ("smollm2", curve({1: 30, 2: 48, 5: 80, 9: 144, 17: 160, 33: 240}, PHRASES)),
    "an expensive drafter": ("smollm2", curve(FOUR_BITS, NETWORK)),
    "an expensive drafter and expensive rows": ("demo", curve({1: 5.5, 2: 9, 5: 18, 9: 30, 17: 48, 33: 80}, SLOW)),
}
ALL = {**PAYING, **LOSING}


def shuffled_prefixes(texts: Sequence[DraftedText], tokens: int) -> list[DraftedText]:
    """Return the first ``tokens`` tokens of each text, in a random order."""
    beginnings = [DraftedText(text.logprobs[:tokens], text.kept[:tokens]) for text in texts]
    return random.Random(1).sample(beginnings, len(beginnings))


def disturbed(costs: CostCurve, factor: float) -> CostCurve:
    """Scale the extra cost of drafting by ``factor``."""
    one = costs.verify_low_ms[0]
    passes = tuple(one + factor * (ms - one) for ms in costs.verify_low_ms)
    return replace(costs, verify_ms=passes, verify_low_ms=passes, verify_high_ms=passes,
                   draft_ms=tuple(factor * ms for ms in costs.draft_ms))


class Machine:
    """Reports to a policy what its rounds took, beside work that delays some of them."""

    def __init__(self, policy: AutoBudget, draws: random.Random | None) -> None:
        self.policy, self.draws = policy, draws

    def record_timing(self, seconds: Mapping[str, float]) -> None:
        delay = self.draws.lognormvariate(0, 0.3) * (3 if self.draws.random() < 0.05 else 1) if self.draws else 1.0
        self.policy.record_timing({stage: delay * value for stage, value in seconds.items()})


def auto_time_over_plain(rig: str, truth: CostCurve, tokens: int, believed: CostCurve | None = None,
             machine: random.Random | None | bool = None) -> float:
    """Return auto's time over all texts of a rig relative to plain decoding's. Its rounds are timed on an idle
    ``machine`` (None), on a busy one with these draws, or not at all (False)."""
    history, texts, spent = DraftHistory(), shuffled_prefixes(drafted_texts(rig), tokens), 0.0
    for text in texts:
        policy = AutoBudget(believed or truth, history)
        told = None if isinstance(machine, bool) else Machine(policy, machine).record_timing
        spent += milliseconds(text, policy, truth, told)
    return spent / sum(len(text.kept) * truth.plain_ms for text in texts)


class Nodes(BudgetPolicy):
    """Uses the same budget in every round."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes

    def plan(self, drafters: int, budget: int) -> tuple[int, int]:
        return drafters, self._nodes


def best_fixed(rig: str, costs: CostCurve, tokens: int) -> float:
    """Return the time of the best fixed budget relative to plain decoding's."""
    texts = shuffled_prefixes(drafted_texts(rig), tokens)
    plain = sum(len(text.kept) * costs.plain_ms for text in texts)
    return min(sum(milliseconds(text, Nodes(budget), costs) for text in texts) / plain
               for budget in (1, 2, 3, 4, 7, 8, 12, 16, 24))


@pytest.mark.parametrize("tokens", [32, 64, 99])
@pytest.mark.parametrize("case", LOSING)
def test_where_plain_decoding_wins_short_answers_lose_four_percent_at_most(case: str, tokens: int) -> None:
    assert best_fixed(*LOSING[case], tokens) > 1.1
    assert auto_time_over_plain(*LOSING[case], tokens) <= 1.04


@pytest.mark.parametrize("tokens", [32, 99])
@pytest.mark.parametrize("case", PAYING)
def test_where_trees_pay_auto_gains_what_the_best_budget_does(case: str, tokens: int) -> None:
    rig, costs = PAYING[case]
    fixed = best_fixed(rig, costs, tokens)
    assert fixed < 0.85, "trees pay"
    assert auto_time_over_plain(rig, costs, tokens) <= 1.035 * fixed


@pytest.mark.parametrize("case", PAYING)
def test_a_curve_that_makes_drafting_too_expensive_is_corrected(case: str) -> None:
    rig, truth = PAYING[case]
    right, believed = auto_time_over_plain(rig, truth, 64), disturbed(truth, 2.5)
    assert auto_time_over_plain(rig, truth, 64, believed) <= right + 0.04
    busy = [auto_time_over_plain(rig, truth, 64, believed, machine=random.Random(seed)) for seed in range(3)]
    assert sum(busy) / 3 < right + 0.07, "on a machine that stays busy too"


@pytest.mark.parametrize("case", ["expensive rows", "less expensive rows", "an expensive drafter"])
def test_a_curve_that_makes_drafting_too_cheap_is_corrected(case: str) -> None:
    rig, truth = LOSING[case]
    believed = disturbed(truth, 0.4)
    unaware = auto_time_over_plain(rig, truth, 64, believed, machine=False)
    assert unaware > 1.06 and auto_time_over_plain(rig, truth, 64, believed) - 1 < 0.75 * (unaware - 1)


def mean_of_all() -> float:
    return float(np.mean([auto_time_over_plain(rig, costs, 64) for rig, costs in ALL.values()]))


@pytest.fixture(scope="module")
def usual() -> float:
    return mean_of_all()


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    "DECAY", "PRIOR", "EXPLORATION", "INITIAL_BALANCE", "FIRST_DRAFT_SLACK", "MAX_FIRST_NODES", "MAX_DELAY"])
def test_no_constant_is_tuned(name: str, usual: float, monkeypatch: pytest.MonkeyPatch) -> None:
    value = getattr(auto, name)
    others = {"DECAY": (0.9, 0.975), "MAX_FIRST_NODES": (12, 32), "MAX_DELAY": (1.5, 4.0)}
    for other in others.get(name, (value / 2, value * 2)):
        monkeypatch.setattr(auto, name, other)
        assert abs(mean_of_all() - usual) < 0.015, other
