"""The table: medians over prompts, paired speed-up, the fastest setting; and the order that makes it fair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from statistics import median
from threading import Event

import pytest

from engine.decoding.methods import METHODS
from engine.lab.settings import CellResult, Reading, Setting, SweepPlan, block_of, measuring_order
from engine.lab.summary import KnownRows, Row, summarise
from engine.lab.sweeping import LocalCrew, Task
from tests.engine.lab.scripted import ScriptedLaboratory, toy_plan


def measure_all(plan: SweepPlan, laboratory: ScriptedLaboratory) -> list[CellResult]:
    return list(LocalCrew(laboratory).work([Task(cell, plan.ask(cell)) for cell in measuring_order(plan)], Event()))


@pytest.fixture(scope="module")
def plan() -> SweepPlan:
    return toy_plan(prompts=7, methods=("dflash", "ddtree", "merged"), budgets=(2, 16, 128))


@pytest.fixture(scope="module")
def measured(plan: SweepPlan) -> list[CellResult]:
    return measure_all(plan, ScriptedLaboratory())


def test_every_cell_comes_once_in_blocks_that_hold_every_setting(plan: SweepPlan) -> None:
    order = measuring_order(plan)
    assert len(order) == len(set(order)) == len(plan)
    blocks = [list(group) for _, group in groupby(order, block_of)]
    assert len(blocks) == 7 * 2
    assert all({cell.setting for cell in each} == set(plan.settings) for each in blocks)
    assert len({tuple(cell.setting for cell in each) for each in blocks}) > 7  # shuffled anew in every block
    assert {each[0].prompt for each in blocks[:7]} == set(range(7))  # every prompt before any comes again
    assert measuring_order(plan) == order
    assert measuring_order(replace(plan, seed=1)) != order


def row_of(plan: SweepPlan, measured: list[CellResult], setting: Setting) -> Row:
    return next(row for row in summarise(plan.settings, measured).rows if row.setting == setting)


@pytest.mark.slow
def test_a_row_is_made_of_medians_over_prompts(plan: SweepPlan, measured: list[CellResult]) -> None:
    setting = plan.settings[2]
    found = row_of(plan, measured, setting)
    own = [each for each in measured if each.cell.setting == setting]
    taus = [median(each.reading.tau for each in own if each.reading and each.cell.prompt == prompt)
            for prompt in range(7)]
    assert found.tau.median == median(taus)
    assert (found.tau.low, found.tau.high) == (min(taus), max(taus))  # seven prompts: ranks 1 and 7
    assert (found.runs, found.failed, found.tokens) == (14, 0, 14 * 24)
    assert found.pooled_tau == pytest.approx(found.tokens / found.rounds)
    assert (found.same_text, found.compared) == (14, 14)
    assert found.speedup is not None
    plain = row_of(plan, measured, setting.baseline)
    assert plain.speedup is not None
    assert (plain.speedup.median, plain.tau.median) == (1, 1)
    # one row costs 1.01 ms, so a setting's speed-up is τ × 1.01 ms over its own round
    assert found.speedup.median == pytest.approx(
        found.tokens_per_second.median / plain.tokens_per_second.median)


@pytest.mark.slow
def test_the_best_is_the_maximum_of_the_table(plan: SweepPlan, measured: list[CellResult]) -> None:
    found = summarise(plan.settings, measured)
    assert found.best is not None
    assert found.best.tokens_per_second.median == max(row.tokens_per_second.median for row in found.rows)
    assert found.best.setting.budget not in (0, 128)  # 128 rows cost more than they bring, none bring nothing


def test_what_is_not_lossless_is_never_recommended() -> None:
    plan = toy_plan(methods=("nanogpt_ratio", "nanogpt"), budgets=(6,))
    found = summarise(plan.settings, [replace(each, reading=replace(each.reading, round_seconds=(1e-9,) * 24))
                                      if not METHODS[each.cell.setting.method].lossless and each.reading else each
                                      for each in measure_all(plan, ScriptedLaboratory(methods=tuple(METHODS)))])
    fastest = max(found.rows, key=lambda row: row.tokens_per_second.median)
    assert not METHODS[fastest.setting.method].lossless
    assert found.best is not None
    assert METHODS[found.best.setting.method].lossless


@pytest.mark.slow
def test_drift_favours_nobody(plan: SweepPlan, measured: list[CellResult]) -> None:
    drifting = measure_all(plan, ScriptedLaboratory(drift=0.0005))
    slowest = max(each.reading.seconds / calm.reading.seconds for each, calm in zip(drifting, measured, strict=True)
                  if each.reading and calm.reading)
    assert slowest > 1.05
    for calm in summarise(plan.settings, measured).rows:
        shaken = row_of(plan, drifting, calm.setting)
        assert shaken.speedup is not None and calm.speedup is not None
        assert shaken.speedup.median == pytest.approx(calm.speedup.median, rel=0.002)


def test_speed_is_compared_within_one_hardware_alone(plan: SweepPlan, measured: list[CellResult]) -> None:
    baseline = plan.settings[0]
    elsewhere = [replace(each, hardware="another") if each.cell.setting == baseline else each for each in measured]
    found = row_of(plan, elsewhere, plan.settings[1])
    assert (found.speedup, found.compared) == (None, 0)


def test_what_failed_is_counted_and_not_averaged(plan: SweepPlan, measured: list[CellResult]) -> None:
    setting = plan.settings[1]
    failed = [replace(each, reading=None, failure="no") if each.cell.setting == setting and each.cell.repeat else each
              for each in measured]
    found = row_of(plan, failed, setting)
    assert (found.runs, found.failed) == (7, 7)
    gone = [replace(each, reading=None, failure="no") if each.cell.setting == setting else each for each in measured]
    assert setting not in [row.setting for row in summarise(plan.settings, gone).rows]
    assert summarise(plan.settings, []).best is None


Change = Callable[[Reading], Reading]


def changed(measured: list[CellResult], plain: Change, drafted: Change) -> list[CellResult]:
    """The results with the readings of plain decoding and of the others changed."""
    return [replace(each, reading=each.reading and (
        plain if each.cell.setting == each.cell.setting.baseline else drafted)(each.reading)) for each in measured]


def slower(times: Callable[[Reading], float]) -> Change:
    return lambda reading: replace(reading, round_seconds=tuple(
        times(reading) * spent for spent in reading.round_seconds))


SAME = slower(lambda reading: 1)
HELD_UP = slower(lambda reading: 20)
UNEVEN = slower(lambda reading: 1 + reading.token_ids[0] % 2 / 2)  # some prompts by half, and others not


@pytest.mark.slow
@pytest.mark.parametrize(("plain", "drafted", "reason"), [
    (HELD_UP, SAME, "larger than"), (UNEVEN, SAME, "Other programs"),
    (SAME, lambda reading: replace(reading, rows=(2, *(1,) * (len(reading.rows) - 1))), "rounds verified a draft")])
def test_a_speed_up_that_cannot_be_true_is_withheld(
        plan: SweepPlan, measured: list[CellResult], plain: Change, drafted: Change, reason: str) -> None:
    setting, results = plan.settings[2], changed(measured, plain, drafted)
    row, beside = row_of(plan, results, setting), row_of(plan, results, setting.baseline)
    assert row.speedup is None and reason in row.withheld
    assert beside.speedup is not None and beside.speedup.median == 1 and not beside.withheld


def test_only_rows_with_a_new_run_are_made_again(plan: SweepPlan, measured: list[CellResult]) -> None:
    known: KnownRows = {}
    *before, last = measured
    kept = {row.setting: row for row in summarise(plan.settings, before, known).rows}
    after = summarise(plan.settings, measured, known)
    assert after == summarise(plan.settings, measured)
    changed = {row.setting for row in after.rows if row is not kept[row.setting]}
    assert changed == {last.cell.setting} or last.cell.setting == last.cell.setting.baseline
