"""The table: medians over prompts, paired speed-up, the fastest setting, and the order that makes it fair. Speeds in
turns: a clock that is wrong for a while gives no false speed-up, and texts are compared token by token."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import median

import numpy as np
import pytest

from engine.decoding.methods import METHODS
from engine.lab.against_plain import (
    BIASED,
    DRAWN,
    NEAR_TIE,
    SAME,
    SO_FAR,
    UNEXPLAINED,
    UNKNOWN,
    Difference,
    Text,
    TurnTaking,
    compared,
    speed_ratio,
    text_of,
    turn_pairs,
)
from engine.lab.reading import Reading
from engine.lab.settings import CellResult, Setting, SweepPlan, block_of, measuring_order
from engine.lab.summary import Row, summarise
from engine.records import Acceptance, DraftTree, Request, Round, Sampling, Verification
from tests.engine.lab.scripted import ScriptedLaboratory, measure_all, toy_plan


@pytest.fixture(scope="module")
def plan() -> SweepPlan:
    return toy_plan(prompts=7, methods=("dflash", "ddtree", "merged"), budgets=(2, 16, 128))


@pytest.fixture(scope="module")
def measured(plan: SweepPlan) -> list[CellResult]:
    return measure_all(plan)


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


UNCHANGED = slower(lambda reading: 1)
HELD_UP = slower(lambda reading: 20)
UNEVEN = slower(lambda reading: 1 + reading.token_ids[0] % 2 / 2)  # some prompts by half, and others not


@pytest.mark.slow
@pytest.mark.parametrize(("plain", "drafted", "reason"), [
    (HELD_UP, UNCHANGED, "larger than"), (UNEVEN, UNCHANGED, "Other programs"),
    (UNCHANGED, lambda reading: replace(reading, rows=(2, *(1,) * (len(reading.rows) - 1))), "verified a draft")])
def test_a_speed_up_that_cannot_be_true_is_withheld(
        plan: SweepPlan, measured: list[CellResult], plain: Change, drafted: Change, reason: str) -> None:
    setting, results = plan.settings[2], changed(measured, plain, drafted)
    row, beside = row_of(plan, results, setting), row_of(plan, results, setting.baseline)
    assert row.speedup is None and reason in row.withheld
    assert beside.speedup is not None and beside.speedup.median == 1 and not beside.withheld


LENGTHS = (3, 1, 4, 2, 2, 3, 1, 2) * 6  # tokens of each round
TOKENS = sum(LENGTHS)


def rounds(lengths: Sequence[int], seconds: Sequence[float], drafted: bool = True, ids: Sequence[int] = ()) -> list[
        Round]:
    """Rounds of a chain of four drafted nodes, or of none, that keep so many tokens; token i is i."""
    made, start = [], 0
    ids = ids or range(10_000)
    for index, (length, spent) in enumerate(zip(lengths, seconds, strict=True)):
        size = max(5, length) if drafted else 1
        tokens = np.array([*ids[start:start + length], *[9] * (size - length)], np.int32)
        parents = np.maximum(np.arange(size) - 1, 0).astype(np.int32)
        zeros = np.zeros(size, np.float32)
        said = Verification(tokens, zeros, zeros, zeros + 0.01 * (1 + start), zeros, zeros)
        made.append(Round(
            index, start, (), (), DraftTree(tokens, parents, zeros, np.zeros(size, np.int32)), said,
            Acceptance(np.arange(length, dtype=np.int32), int(ids[start + length])), {"verify": spent}))
        start += length
    return made


def plain(seconds: Sequence[float], ids: Sequence[int] = ()) -> list[Round]:
    return rounds([1] * len(seconds), seconds, drafted=False, ids=ids)


STEADY = [0.02] * TOKENS
RUN = rounds(LENGTHS, [0.03] * len(LENGTHS))
TRUE = TOKENS * 0.02 / (len(LENGTHS) * 0.03)


def test_turns_hold_the_same_tokens_and_lose_none() -> None:
    taking = TurnTaking(iter(RUN), iter(plain(STEADY)))
    behind = []
    while taking.turn():
        behind.append(sum(len(made.acceptance.keep) for made in taking.rounds) - len(taking.plain))
    assert set(behind) == {0} and (len(taking.rounds), len(taking.plain)) == (len(RUN), TOKENS)
    turns = turn_pairs(taking.rounds, taking.plain)
    assert sum(pair.tokens for pair in turns) == TOKENS and min(pair.tokens for pair in turns) >= 4
    assert sum(pair.seconds for pair in turns) == pytest.approx(len(RUN) * 0.03)
    assert sum(pair.plain_seconds for pair in turns) == pytest.approx(TOKENS * 0.02)


def test_where_one_text_ends_first_the_other_goes_on() -> None:
    taking = TurnTaking(iter(RUN[:5]), iter(plain(STEADY[:40])))
    while taking.turn():
        pass
    assert (len(taking.rounds), len(taking.plain)) == (5, 40)
    taking = TurnTaking(iter(RUN), iter(plain(STEADY[:10])))
    while taking.turn():
        pass
    assert (len(taking.rounds), len(taking.plain)) == (len(RUN), 10)


def test_the_ratio_is_that_of_the_two_speeds() -> None:
    found = speed_ratio(turn_pairs(RUN, plain(STEADY)), RUN)
    assert found.withheld == "" and found.ratio == pytest.approx(TRUE, rel=0.05)
    assert found.low < found.ratio < found.high
    assert found.ratio == pytest.approx(found.speed / found.plain_speed)


@pytest.mark.parametrize("slow", [4, 10, 20, 40, 60])
def test_a_clock_that_was_slow_at_the_beginning_gives_no_false_speed_up(slow: int) -> None:
    forged = plain([0.06] * slow + [0.02] * (TOKENS - slow))
    found = speed_ratio(turn_pairs(RUN, forged), RUN)
    assert found.withheld or found.ratio == pytest.approx(TRUE, rel=0.05)
    assert bool(found.withheld) == (slow > 20)


def test_what_slows_both_for_a_while_changes_nothing() -> None:
    half = TOKENS // 2
    slowed = [0.03 if RUN[index].start < half else 0.036 for index in range(len(RUN))]
    run = rounds(LENGTHS, slowed)
    found = speed_ratio(turn_pairs(run, plain([0.02] * half + [0.024] * (TOKENS - half))), run)
    assert found.withheld == "" and found.ratio == pytest.approx(TRUE, rel=0.05)


@pytest.mark.parametrize(("run", "plain_seconds", "busy", "reason"), [
    ([*rounds([3] * 3, [0.03] * 3), *plain([0.02] * 77)], 0.02, False, "Only 3 of 80 rounds"),
    (plain([0.02] * 80), 0.02, False, "No round verified"),
    (RUN, 0.1, False, "larger than"),
    (RUN, 0.02, True, "Other programs"),
    (RUN[:6], 0.02, False, "too short")])
def test_a_ratio_that_cannot_be_true_or_says_nothing_is_withheld(
        run: list[Round], plain_seconds: float, busy: bool, reason: str) -> None:
    turns = turn_pairs(RUN[:6] if reason == "too short" else RUN, plain([plain_seconds] * TOKENS))
    assert reason in speed_ratio(turns, run, busy=busy).withheld


def asked(temperature: float = 0.0, method: str = "ddtree") -> Request:
    return Request((1,), method=method, sampling=Sampling(temperature=temperature))


def test_the_same_text_is_said_of_what_was_compared() -> None:
    text, whole = text_of(RUN), text_of(plain(STEADY))
    assert compared(text, whole, asked(), "float32").verdict == SAME
    found = compared(text, text_of(plain(STEADY[:40])), asked(), "float32")
    assert (found.verdict, found.same, found.tokens, found.difference) == (SO_FAR, 40, TOKENS, None)
    stopped = compared(text_of(RUN[:3]), whole, asked(), "float32")
    assert (stopped.verdict, stopped.same) == (SAME, sum(LENGTHS[:3]))


def test_another_text_is_explained_by_the_gap_where_it_parts() -> None:
    ids = [*range(7), *range(70, 70 + TOKENS)]
    other = text_of(rounds(LENGTHS, [0.03] * len(LENGTHS), ids=ids))
    plainly = text_of(plain(STEADY))
    found = compared(other, plainly, asked(), "bfloat16")
    assert (found.verdict, found.same) == (NEAR_TIE, 7)
    assert found.difference == Difference(7, 70, 7, pytest.approx(0.07))
    assert compared(other, plainly, asked(), "float32").verdict == UNEXPLAINED
    assert compared(other, plainly, asked(0.7), "bfloat16").verdict == UNKNOWN
    assert compared(other, plainly, asked(0.7, "nanogpt"), "bfloat16").verdict == DRAWN
    assert compared(other, plainly, asked(method="nanogpt_ratio"), "float32").verdict == BIASED
    at_once = compared(text_of(plain(STEADY, range(1, 10_000))), plainly, asked(), "bfloat16")
    assert at_once.difference and (at_once.difference.position, at_once.difference.gap) == (0, None)
    unknown = Text(plainly.token_ids, [float("nan")] * TOKENS, plainly.bonus)
    assert compared(other, unknown, asked(), "bfloat16").verdict == NEAR_TIE  # by the run's own gap
    silent = Text(other.token_ids, [float("nan")] * TOKENS, other.bonus)
    assert compared(silent, unknown, asked(), "bfloat16").verdict == UNKNOWN


def test_a_text_that_goes_on_where_plain_decoding_ends_differs_in_its_end() -> None:
    ended = text_of(plain(STEADY[:20]))
    found = compared(text_of(RUN), replace(ended, bonus=5), asked(), "float32")
    assert found.difference and found.difference.position == 20 and found.verdict == UNEXPLAINED
