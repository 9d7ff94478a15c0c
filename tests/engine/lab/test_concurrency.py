"""Several requests at once: what is counted, kept, resumed, reported, said in words, and predicted."""

import csv
import io
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.budget.cost import CostCurve
from engine.decoding.loop import BatchRequest
from engine.errors import RequestError
from engine.lab.concurrency import (
    KnownRounds,
    concurrency_words,
    curves,
    plain_words,
    predict,
    prediction_error,
    ridge,
    texts_measured,
)
from engine.lab.reading import read_concurrent
from engine.lab.report import report, runs_csv, sweep_command, table_csv
from engine.lab.settings import CellResult, Choice, Setting, measuring_order, settings
from engine.lab.statistics import estimate
from engine.lab.store import StoredSweep
from engine.lab.summary import Row, summarise
from engine.records import Request, Sampling
from tests.engine.lab.scripted import CURVE, ROUND_SECONDS, ROW_SECONDS, ScriptedLaboratory, measure_all, toy_plan
from tests.engine.material import drafters_of
from tests.engine.toy import ToyTarget

COUNTS = (1, 2, 4)
PLAN = replace(toy_plan(prompts=7, repeats=1, methods=("ddtree",), budgets=(4, 16), concurrency=COUNTS),
               prompt_set="bench")


def requested(prompt: Sequence[int], target: ToyTarget, tokens: int, method: str = "autoregressive") -> BatchRequest:
    return BatchRequest(Request(tuple(prompt), method=method, budget=7, max_tokens=tokens,
                                sampling=Sampling()), drafters_of(method, target))


@pytest.fixture(scope="module")
def measured() -> list[CellResult]:
    return measure_all(PLAN)


def test_as_many_are_at_work_in_every_round_that_counts() -> None:
    target = ToyTarget(seed=2)
    others = [requested((place,), target, 1 + place) for place in range(4)]
    found = read_concurrent(target, [requested((1, 2, 3), target, 30), *others], 4)
    assert found.committed == (4,) * 30 and found.lengths == (1,) * 30  # though the others end after 1 to 4 rounds
    assert found.total_tokens_per_second == pytest.approx(4 * found.tokens_per_second)


def test_a_text_is_the_same_among_others_and_alone() -> None:
    target = ToyTarget(seed=2)
    asked = requested((1, 2, 3), target, 40, "ddtree")
    others = [requested((place,), target, 5 + place, "dflash") for place in range(3)]
    alone, among = (read_concurrent(target, [asked, *others], count) for count in (1, 3))
    assert alone.token_ids == among.token_ids and alone.lengths == among.lengths == alone.committed
    assert sum(among.committed) > len(among.token_ids)


def test_who_cannot_be_served_gives_its_turn_away_and_nobody_left_is_a_sentence() -> None:
    target = ToyTarget(seed=2, context_limit=64)
    asked, good = requested((1, 2), target, 9), requested((3,), target, 2)
    wrong = requested((1,) * 100, target, 9)
    assert read_concurrent(target, [asked, wrong, good, wrong], 3).committed == (3,) * 9
    with pytest.raises(RequestError, match="^No other prompt of the set can stand beside this one. .*100"):
        read_concurrent(target, [asked, wrong], 2)
    with pytest.raises(RequestError, match="100"):
        read_concurrent(target, [wrong, good], 2)


def test_settings_come_for_every_number_with_their_own_baseline_and_that_of_one() -> None:
    found = settings(Choice(("ddtree",), (8,), concurrency=(4, 2, 4)))
    assert [each.label for each in found] == [
        "autoregressive", "autoregressive, 2 at once", "ddtree 8, 2 at once", "autoregressive, 4 at once",
        "ddtree 8, 4 at once"]
    assert found[4].baseline == found[3] and found[3].alone == found[0]


def test_every_prompt_is_measured_in_every_setting_and_stands_beside_the_others_as_often() -> None:
    setting = next(each for each in PLAN.settings if each.concurrency == 4)
    own = [cell for cell in measuring_order(PLAN) if cell.setting == setting]
    assert sorted(cell.prompt for cell in own) == list(range(7))
    beside = [ask.prompt for cell in own for ask in PLAN.task(cell).others]
    assert {beside.count(prompt.text) for prompt in PLAN.prompts} == {16}
    first = PLAN.task(replace(own[0], prompt=5)).others
    assert [ask.prompt for ask in first[:3]] == [PLAN.prompts[place].text for place in (6, 0, 1)]
    assert {ask.method for ask in first} == {setting.method} and {ask.max_tokens for ask in first} == {24}


def test_the_table_has_total_and_each_with_intervals_and_compares_with_one(measured: list[CellResult]) -> None:
    summary = summarise(PLAN.settings, measured)
    assert summary.counts == COUNTS and summary.best == summary.at(1).best
    rows = {row.setting.label: row for row in summary.rows}
    plain = rows["autoregressive, 4 at once"]
    round_seconds = ROUND_SECONDS + 4 * ROW_SECONDS
    assert plain.tokens_per_second.median == pytest.approx(1 / round_seconds)
    assert plain.total.median == pytest.approx(4 / round_seconds)
    assert plain.speedup is not None and plain.speedup.median == 1
    tree = rows["ddtree 16, 4 at once"]
    assert tree.speedup is not None and tree.speedup.low is not None  # seven prompts
    assert (tree.same_text, tree.compared) == (7, 7)
    changed = [replace(each, reading=replace(each.reading, token_ids=(1, *each.reading.token_ids[1:])))
               if each.cell.setting == tree.setting and each.cell.prompt == 3 and each.reading else each
               for each in measured]
    again = {row.setting: row for row in summarise(PLAN.settings, changed).rows}
    assert (again[tree.setting].same_text, again[tree.setting].compared) == (6, 7)


def test_report_csv_and_command_have_the_second_axis(measured: list[CellResult]) -> None:
    made = report(StoredSweep(1, "2026-11-22", PLAN, ScriptedLaboratory().conditions, len(measured)), measured)
    assert [each["concurrency"] for each in made["ridge"]] == list(COUNTS)
    assert all(each["total_tokens_per_second"] == max(
        row["total_tokens_per_second"] for row in made["rows"] if row["concurrency"] == each["concurrency"])
        for each in made["ridge"])
    assert "--concurrency 4" in made["ridge"][-1]["command"] and made["recommended"]["concurrency"] == 1
    assert made["load"].keys() == {"ddtree"}
    rows = list(csv.DictReader(io.StringIO(table_csv(made))))
    assert {row["concurrency"] for row in rows} == {"1", "2", "4"}
    assert all(float(row["total_tokens_per_second_low"]) > 0 for row in rows)
    runs = list(csv.DictReader(io.StringIO(runs_csv(PLAN, measured))))
    assert len(runs) == len(PLAN) and all(
        float(run["total_tokens_per_second"]) >= float(run["tokens_per_second"]) for run in runs)
    words = shlex.split(sweep_command(PLAN))[4:]
    assert words[words.index("--concurrency"):] == ["--concurrency", "1", "2", "4"]
    assert report(StoredSweep(1, "", PLAN, ScriptedLaboratory().conditions, 0), [])["load"] == {}


def row(budget: int, concurrency: int, total: float, faster: float) -> Row:
    return Row(Setting("ddtree", budget, concurrency=concurrency), 6, 0, 100, 20, 5.0, estimate([5.0] * 6),
               estimate([total / concurrency] * 6), estimate([total] * 6), estimate([faster] * 6), 6, 6)


@pytest.mark.parametrize(("factors", "sentences"), [
    ({1: (2, 3, 4), 4: (2, 2, 2), 8: (1.5, 1.2, 0.9)}, ["1 to 4 .* drafting pays", "8 .* plain .* above 16"]),
    ({1: (2, 2, 2), 2: (0.9, 0.8, 1.4), 8: (0.5, 0.5, 0.5), 16: (0.4, 0.4, 0.4)}, [
        "1 request at once drafting pays", "2 .* plain .* below 64", "From 8 .* plain .* every budget"]),
    ({1: (2, 0.5, 2)}, ["1 .* plain .* the budget 16"]),
    ({}, [])])
def test_where_plain_decoding_wins_in_words(factors: dict[int, tuple[float, ...]], sentences: list[str]) -> None:
    rows = [row(budget, count, 100 * factor, factor) for count, by_budget in factors.items()
            for budget, factor in zip((8, 16, 64), by_budget, strict=True)]
    words = plain_words(rows)
    assert len(words) == len(sentences)
    assert all(re.search(pattern, sentence) for pattern, sentence in zip(sentences, words, strict=True)), words


def test_the_ridge_is_the_best_budget_of_each_number(measured: list[CellResult]) -> None:
    rows = [row(8, 1, 300, 3), row(64, 1, 500, 5), row(8, 8, 900, 2), row(64, 8, 700, 1.5), row(16, 8, 900, 2)]
    assert {count: each.setting.budget for count, each in ridge(rows).items()} == {1: 64, 8: 8}
    summary = summarise(PLAN.settings, measured)
    (curve,) = curves(summary)
    assert concurrency_words(summary, curve)[0].startswith("The best budget of ddtree, by requests at once: ")


def load(requests: int) -> CostCurve:
    """A pass of 10 ms and 1 ms a row, a draft of 2 ms, 1 ms besides, a plain round of 10 ms and 1 ms a request."""
    rows = (1, 101)
    passes = (11.0, 111.0)
    return replace(CURVE, rows=rows, verify_ms=passes, verify_low_ms=passes, verify_high_ms=passes,
                   draft_ms=(2.0, 2.0), overhead_ms=1.0, plain_ms=10.0 + requests, requests=requests)


def test_a_prediction_is_the_sum_of_its_measured_parts() -> None:
    known = KnownRounds((3, 5), (9, 9), 0.5)
    # four requests: 36 rows make 46 ms, a draft 2, four buildings 2, besides 1: two rounds of 51 ms for 4 × 8 tokens
    setting = Setting("ddtree", 8)
    assert known.total_tokens_per_second(replace(setting, concurrency=4), load) == pytest.approx(32 / 0.102)
    plain = KnownRounds((1, 1), (1, 1), 0.0)
    assert plain.total_tokens_per_second(Setting("autoregressive", 0, concurrency=4), load) == pytest.approx(4 / 0.014)
    found = predict({setting: [known, replace(known, lengths=(3, 3)), replace(known, lengths=(1, 1))]}, (1, 4), load)
    assert found == {setting: pytest.approx(6 / 0.045), replace(setting, concurrency=4): pytest.approx(24 / 0.102)}


def test_the_error_of_predictions_is_told_against_what_was_measured() -> None:
    summary = replace(summarise((), []), rows=(row(8, 1, 100, 2), row(8, 4, 200, 2), row(16, 4, 400, 2)))
    setting = Setting("ddtree", 8)
    predicted = {setting: 110.0, replace(setting, concurrency=4): 100.0, replace(setting, concurrency=16): 1.0}
    found = prediction_error(predicted, summary)
    assert found.startswith("Against 2 measured cells ")
    assert found.endswith(" by 30% in the median and by 50% at most (ddtree 8, 4 at once).")
    assert prediction_error({}, summary) == ""


def test_the_toy_is_predicted_as_it_is_measured(measured: list[CellResult]) -> None:
    """Its rounds cost what its curve says, its trees are all of one size: what is left is what others committed."""
    ask = PLAN.ask(measuring_order(PLAN)[0])
    summary = summarise(PLAN.settings, measured)
    predicted = predict(texts_measured(measured), COUNTS, lambda count: ScriptedLaboratory().concurrent_cost(ask,
                                                                                                             count))
    assert predicted.keys() == set(PLAN.settings)
    plain = [row for row in summary.rows if row.setting.method == "autoregressive"]
    assert plain and all(predicted[row.setting] == pytest.approx(row.total.median) for row in plain)


def test_trees_come_from_the_runs_with_the_fewest_at_once(measured: list[CellResult]) -> None:
    texts = texts_measured(measured)
    assert {setting.concurrency for setting in texts} == {1} and {len(each) for each in texts.values()} == {7}
    readings = {each.cell.prompt: each.reading for each in measured
                if each.cell.setting == Setting("ddtree", 16) and each.reading}
    assert {known.lengths for known in texts[Setting("ddtree", 16)]} == {
        reading.lengths for reading in readings.values()}
    several = [each for each in measured if each.cell.setting.concurrency > 1]
    built = [replace(each, reading=replace(each.reading, stage_seconds={"build": 0.012 * each.reading.rounds}))
             for each in several if each.reading]
    few = texts_measured(built)
    assert {known.build_ms for known in few[Setting("ddtree", 16)]} == {6.0}  # of the two that were built for
