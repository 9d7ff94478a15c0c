"""A sweep on its way: in turn, paused, stopped, resumed, and what it says meanwhile."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import RequestError
from engine.lab.settings import SweepPlan
from engine.lab.store import Store
from engine.lab.sweeping import WARMING_TOKENS
from tests.engine.lab.scripted import ScriptedLaboratory, go_on, measure_all, toy_plan

PLAN = toy_plan()
CONDITIONS = ScriptedLaboratory().conditions


@pytest.fixture()
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "results.sqlite") as opened:
        yield opened


def test_a_sweep_measures_everything_and_says_how_far_it_is(store: Store) -> None:
    laboratory = ScriptedLaboratory()
    number = store.begin(PLAN, CONDITIONS)
    steps = go_on(store, number, laboratory)
    assert [(step.done, step.total) for step in steps] == [(done, len(PLAN)) for done in range(1, len(PLAN) + 1)]
    assert store.measured(number) == [step.measured for step in steps]
    assert all(step.seconds_left > 0 for step in steps[:-1]) and steps[-1].seconds_left == 0
    warming, asked = laboratory.asked[:len(PLAN.settings)], laboratory.asked[len(PLAN.settings):]
    assert {(ask.method, ask.budget) for ask in warming} == {
        (setting.method, setting.budget) for setting in PLAN.settings}
    assert {ask.max_tokens for ask in warming} == {WARMING_TOKENS}
    assert asked == [PLAN.request(step.measured.cell) for step in steps]
    assert go_on(store, number, laboratory) == []


def test_settings_share_the_draws_of_a_repeat(store: Store) -> None:
    setting = replace(PLAN.settings[1], temperature=0.9)
    warm = replace(PLAN, settings=(setting.baseline, setting), repeats=3, seed=5)
    texts: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    for step in go_on(store, store.begin(warm, CONDITIONS)):
        cell, reading = step.measured.cell, step.measured.reading
        assert reading
        texts.setdefault((cell.prompt, cell.repeat), set()).add(reading.token_ids)
    assert {len(same) for same in texts.values()} == {1}
    assert len(set.union(*texts.values())) == 9  # and no two prompts or repeats share them


@pytest.mark.parametrize("plan", [
    PLAN, toy_plan(repeats=1, budgets=(4, 16, "auto")), toy_plan(repeats=1, concurrency=(1, 2))],
    ids=["fixed", "auto", "concurrent"])
def test_a_stopped_sweep_goes_on_later_and_measures_what_it_would_have(tmp_path: Path, plan: SweepPlan) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        number = store.begin(plan, CONDITIONS)
        go_on(store, number, cells=5)
        assert store.sweep(number).done == 5
    with Store(path) as store:
        assert store.sweep(number).plan == plan
        assert len(go_on(store, number)) == len(plan) - 5 and store.sweep(number).done == len(plan)
        assert store.measured(number) == measure_all(plan)


def test_what_was_measured_elsewhere_is_not_mixed_with_what_is_measured_here(store: Store) -> None:
    number = store.begin(PLAN, CONDITIONS)
    go_on(store, number, cells=1)
    with pytest.raises(RequestError, match="no hardware.*another"):
        go_on(store, number, ScriptedLaboratory("another"))
    with pytest.raises(RequestError, match="ddtree.*autoregressive"):
        go_on(store, number, ScriptedLaboratory(methods=("autoregressive",)))
