"""The table: medians over prompts, paired speed-ups, the fastest setting, and an order of cells that is fair."""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from statistics import median

import pytest

from engine.decoding.methods import METHODS
from engine.lab.against_plain import BUSY, RATIO_ABOVE_TAU
from engine.lab.reading import Reading
from engine.lab.settings import CellResult, Setting, SweepPlan, block_of, measuring_order
from engine.lab.summary import Row, summarise
from tests.engine.lab.scripted import ScriptedLaboratory, measure_all, slower, toy_plan, with_readings


@pytest.fixture(scope="module")
def plan() -> SweepPlan:
    return toy_plan(prompts=7, methods=("dflash", "ddtree"), budgets=(2, 16, 128))


@pytest.fixture(scope="module")
def measured(plan: SweepPlan) -> list[CellResult]:
    return measure_all(plan)


def row_of(plan: SweepPlan, measured: list[CellResult], setting: Setting) -> Row:
    return next(row for row in summarise(plan.settings, measured).rows if row.setting == setting)


def test_every_cell_comes_once_in_blocks_of_all_settings(plan: SweepPlan) -> None:
    order = measuring_order(plan)
    assert len(order) == len(set(order)) == len(plan)
    blocks = [list(group) for _, group in groupby(order, block_of)]
    assert len(blocks) == 7 * 2
    assert all({cell.setting for cell in block} == set(plan.settings) for block in blocks)
    assert len({tuple(cell.setting for cell in block) for block in blocks}) > 7  # every block is shuffled
    assert {block[0].prompt for block in blocks[:7]} == set(range(7))  # every prompt comes once before any comes twice
    assert measuring_order(plan) == order != measuring_order(replace(plan, seed=1))


@pytest.mark.slow
def test_a_row_is_made_of_medians_over_prompts_and_the_best_is_their_maximum(
        plan: SweepPlan, measured: list[CellResult]) -> None:
    setting = plan.settings[2]
    row, plain = row_of(plan, measured, setting), row_of(plan, measured, setting.baseline)
    readings = [(result.cell.prompt, result.reading) for result in measured
                if result.cell.setting == setting and result.reading]
    taus = [median(reading.tau for of_prompt, reading in readings if of_prompt == prompt) for prompt in range(7)]
    # seven prompts: the interval's ranks are 1 and 7
    assert (row.tau.median, row.tau.low, row.tau.high) == (median(taus), min(taus), max(taus))
    assert (row.runs, row.failed, row.tokens, row.same_text, row.compared) == (14, 0, 14 * 24, 14, 14)
    assert row.pooled_tau == pytest.approx(row.tokens / row.rounds)
    assert row.speedup is not None and plain.speedup is not None
    assert (plain.speedup.median, plain.tau.median) == (1, 1)
    # a plain round costs 1.01 ms, so a setting's speed-up is τ × 1.01 ms over its own round's time
    assert row.speedup.median == pytest.approx(row.tokens_per_second.median / plain.tokens_per_second.median)
    summary = summarise(plan.settings, measured)
    assert summary.best is not None
    assert float(row.record.speed) / float(plain.record.speed) == row.record.ratio  # as the table prints them
    assert row.record.plain_speed == plain.record.speed
    assert summary.best.tokens_per_second.median == max(row.tokens_per_second.median for row in summary.rows)
    assert summary.best.setting.budget not in (0, 128)  # 128 rows cost more than they gain, and 0 gain nothing


def test_a_lossy_method_is_never_recommended() -> None:
    plan = toy_plan(methods=("nanogpt_ratio", "nanogpt"), budgets=(6,))
    measured = measure_all(plan, ScriptedLaboratory(methods=tuple(METHODS)))
    summary = summarise(plan.settings, with_readings(measured, lambda result, reading: slower(
        reading, 1 if METHODS[result.cell.setting.method].lossless else 1e-6)))
    fastest = max(summary.rows, key=lambda row: row.tokens_per_second.median)
    assert not METHODS[fastest.setting.method].lossless
    assert summary.best is not None and METHODS[summary.best.setting.method].lossless


@pytest.mark.slow
def test_drift_favours_no_setting(plan: SweepPlan, measured: list[CellResult]) -> None:
    drifting = with_readings(measured, lambda result, reading: slower(reading, 1 + 0.0005 * measured.index(result)))
    assert drifting[-1].reading and measured[-1].reading
    assert drifting[-1].reading.seconds / measured[-1].reading.seconds > 1.04
    for calm, shaken in zip(summarise(plan.settings, measured).rows, summarise(plan.settings, drifting).rows,
                            strict=True):
        assert shaken.speedup is not None and calm.speedup is not None
        assert shaken.speedup.median == pytest.approx(calm.speedup.median, rel=0.01)
        bounds = [(side.speedup.low, side.speedup.high) for side in (shaken, calm) if side.speedup]
        assert bounds[0] == pytest.approx(bounds[1], rel=0.005)


def test_repeating_texts_are_counted(plan: SweepPlan, measured: list[CellResult]) -> None:
    setting = plan.settings[2]
    looping = with_readings(measured, lambda result, reading: replace(
        reading, token_ids=(1, 2, 3) * 8 if result.cell.prompt < 2 else tuple(range(24))))
    assert row_of(plan, looping, setting).repeating == 4  # two prompts, two repeats


def test_other_hardware_is_not_compared_and_failures_are_not_averaged(
        plan: SweepPlan, measured: list[CellResult]) -> None:
    baseline, setting = plan.settings[:2]
    elsewhere = [replace(result, hardware="another") if result.cell.setting == baseline else result
                 for result in measured]
    row = row_of(plan, elsewhere, setting)
    assert (row.speedup, row.compared) == (None, 0)
    failing = [replace(result, reading=None, failure="no") if result.cell.setting == setting and result.cell.repeat
               else result for result in measured]
    row = row_of(plan, failing, setting)
    assert (row.runs, row.failed) == (7, 7)
    failed = [result for result in failing if result.reading is None]
    assert summarise(plan.settings, failed).rows == () and summarise(plan.settings, []).best is None


@pytest.mark.slow
@pytest.mark.parametrize(("plain", "drafted", "reason"), [
    (lambda reading: slower(reading, 20), lambda reading: reading, RATIO_ABOVE_TAU),
    (lambda reading: slower(reading, 1 + reading.token_ids[0] % 2 / 2), lambda reading: reading, BUSY),
    (lambda reading: reading, lambda reading: replace(reading, rows=(2, *(1,) * (len(reading.rows) - 1))), "draft")])
def test_an_implausible_speed_up_is_withheld(
        plan: SweepPlan, measured: list[CellResult], plain: Callable[[Reading], Reading],
        drafted: Callable[[Reading], Reading], reason: str) -> None:
    setting = plan.settings[2]
    results = with_readings(measured, lambda result, reading: (
        plain if result.cell.setting == setting.baseline else drafted)(reading))
    row, baseline = row_of(plan, results, setting), row_of(plan, results, setting.baseline)
    assert row.speedup is None and reason in row.withheld == row.record.withheld and not row.record.times
    assert baseline.speedup is not None and baseline.speedup.median == 1 and not baseline.withheld
