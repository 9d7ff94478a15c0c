"""A sweep that runs, is stopped and resumed, and the progress that it reports."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import RequestError
from engine.lab.settings import SweepPlan
from engine.lab.store import Store
from engine.lab.sweeping import WARMING_TOKENS
from tests.engine.lab.scripted import ScriptedLaboratory, advance_sweep, measure_all, toy_plan

PLAN = toy_plan()
CONDITIONS = ScriptedLaboratory().conditions


@pytest.fixture()
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "results.sqlite") as opened:
        yield opened


def test_a_sweep_measures_every_cell_and_reports_progress(store: Store) -> None:
    laboratory = ScriptedLaboratory()
    number = store.begin(PLAN, CONDITIONS)
    steps = advance_sweep(store, number, laboratory)
    assert [(step.done, step.total) for step in steps] == [(done, len(PLAN)) for done in range(1, len(PLAN) + 1)]
    assert store.measured(number) == [step.measured for step in steps]
    assert all(step.seconds_left > 0 for step in steps[:-1]) and steps[-1].seconds_left == 0
    warming, asked = laboratory.asked[:len(PLAN.settings)], laboratory.asked[len(PLAN.settings):]
    assert {(ask.method, ask.budget) for ask in warming} == {
        (setting.method, setting.budget) for setting in PLAN.settings}
    assert {ask.max_tokens for ask in warming} == {WARMING_TOKENS}
    assert asked == [PLAN.request(step.measured.cell) for step in steps]
    assert advance_sweep(store, number, laboratory) == []


def test_settings_share_the_draws_of_a_repeat(store: Store) -> None:
    setting = replace(PLAN.settings[1], temperature=0.9)
    warm = replace(PLAN, settings=(setting.baseline, setting), repeats=3, seed=5)
    texts: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    for step in advance_sweep(store, store.begin(warm, CONDITIONS)):
        cell, reading = step.measured.cell, step.measured.reading
        assert reading
        texts.setdefault((cell.prompt, cell.repeat), set()).add(reading.token_ids)
    assert {len(same) for same in texts.values()} == {1}
    assert len(set.union(*texts.values())) == 9  # no two prompts or repeats share draws


@pytest.mark.parametrize("plan", [
    PLAN, toy_plan(repeats=1, budgets=(4, 16, "auto")), toy_plan(repeats=1, concurrency=(1, 2))],
    ids=["fixed", "auto", "concurrent"])
def test_a_stopped_sweep_continues_with_the_same_results(tmp_path: Path, plan: SweepPlan) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        number = store.begin(plan, CONDITIONS)
        advance_sweep(store, number, cells=5)
        assert store.sweep(number).done == 5
    with Store(path) as store:
        assert store.sweep(number).plan == plan
        assert len(advance_sweep(store, number)) == len(plan) - 5 and store.sweep(number).done == len(plan)
        assert store.measured(number) == measure_all(plan)


def test_a_sweep_is_not_continued_on_other_hardware(store: Store) -> None:
    number = store.begin(PLAN, CONDITIONS)
    advance_sweep(store, number, cells=1)
    with pytest.raises(RequestError, match="no hardware.*another"):
        advance_sweep(store, number, ScriptedLaboratory("another"))
    with pytest.raises(RequestError, match="ddtree.*autoregressive"):
        advance_sweep(store, number, ScriptedLaboratory(methods=("autoregressive",)))
