"""What a report says, and that it says it of what was measured; whoever divides two printed figures gets the third."""

import csv
import io
import json
import shlex
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.decoding.budget_policy import AUTO, MOST_AUTO
from engine.lab.report import Record, division, rates, ratio_text, report, runs_csv, table_csv
from engine.lab.settings import CellResult, SweepPlan
from engine.lab.store import StoredSweep
from tests.engine.lab.scripted import ScriptedLaboratory, measure_all, toy_plan


@pytest.fixture(scope="module")
def plan() -> SweepPlan:
    return replace(toy_plan(prompts=4, methods=("dflash", "merged")), prompt_set="bench")


@pytest.fixture(scope="module")
def measured(plan: SweepPlan) -> list[CellResult]:
    results = measure_all(plan)
    return [replace(results[0], reading=None, failure="The prompt is too long."), *results[1:]]


@pytest.fixture(scope="module")
def made(plan: SweepPlan, measured: list[CellResult]) -> Record:
    stored = StoredSweep(3, "2026-11-21T00:00:00+00:00", plan, ScriptedLaboratory().conditions, len(measured))
    return report(stored, measured)


def test_a_report_is_plain_json(made: Record) -> None:
    assert json.loads(json.dumps(made, allow_nan=False)) == json.loads(json.dumps(made))
    assert (made["sweep"], made["rig"], made["hardware"], made["dtype"], made["versions"]) == (
        3, "toy", "no hardware", "float32", {"toy": "1"})
    assert (made["cells"], made["done"], made["failed"], made["complete"]) == (40, 40, 1, True)
    assert [each["failure"] for each in made["failures"]] == ["The prompt is too long."]


def test_auto_is_named_recommended_and_asked_for_again() -> None:
    plan = replace(toy_plan(auto_budget=MOST_AUTO), prompt_set="bench")
    slow = [replace(result, reading=result.reading and replace(result.reading, round_seconds=tuple(
        9 * seconds for seconds in result.reading.round_seconds))) if result.cell.setting.pace != AUTO else result
        for result in measure_all(plan)]
    record = report(StoredSweep(1, "", plan, ScriptedLaboratory().conditions, len(slow)), slow)
    best = record["recommended"]
    assert {row["label"] for row in record["rows"] if row["pace"] == AUTO} == {"ddtree auto", "joint auto"}
    assert best["pace"] == AUTO and f"--method {best['method']} --budget auto" in best["command"]
    rows = csv.DictReader(io.StringIO(table_csv(record)))
    assert [(row["label"], row["pace"]) for row in rows if row["recommended"] == "True"] == [(best["label"], AUTO)]
    assert AUTO in shlex.split(record["command"])


def test_the_domains_divide_the_runs(made: Record) -> None:
    assert list(made["domains"]) == ["even", "odd"]
    for place, row in enumerate(made["rows"]):
        parts = [rows[place] for rows in made["domains"].values()]
        assert {part["label"] for part in parts} == {row["label"]}
        for count in ("runs", "failed", "tokens", "rounds"):
            assert sum(part[count] for part in parts) == row[count]


def test_the_statistics_are_of_the_same_rounds(made: Record) -> None:
    for row in made["rows"]:
        (histogram,) = [each for each in made["histograms"] if each["label"] == row["label"]]
        assert sum(histogram["counts"]) == row["rounds"]
        assert sum(length * count for length, count in enumerate(histogram["counts"], 1)) == row["tokens"]
    assert {each["label"] for each in made["calibration"]} == {row["label"] for row in made["rows"] if row["budget"]}
    assert all(each["rate"] == each["accepted"] / each["proposed"] for each in made["acceptance"])


def test_the_csv_files_hold_the_table_and_every_run(made: Record, plan: SweepPlan, measured: list[CellResult]) -> None:
    rows = list(csv.DictReader(io.StringIO(table_csv(made))))
    assert [row["label"] for row in rows] == [row["label"] for row in made["rows"]]
    assert [float(row["tokens_per_second"]) for row in rows] == [row["tokens_per_second"] for row in made["rows"]]
    assert [row["label"] for row in rows if row["recommended"] == "True"] == [made["recommended"]["label"]]
    assert {(row["hardware"], row["command"]) for row in rows} == {("no hardware", made["command"])}
    runs = list(csv.DictReader(io.StringIO(runs_csv(plan, measured))))
    assert len(runs) == len(measured)
    assert (runs[0]["failure"], runs[0]["tau"]) == ("The prompt is too long.", "")
    assert [float(run["tau"]) for run in runs[1:]] == [each.reading.tau for each in measured[1:] if each.reading]
    assert runs_csv(plan, []) == ""


def test_a_report_of_nothing_recommends_nothing(plan: SweepPlan) -> None:
    nothing = report(StoredSweep(1, "", plan, ScriptedLaboratory().conditions, 0), [])
    assert (nothing["rows"], nothing["recommended"], nothing["complete"]) == ([], None, False)
    assert table_csv(nothing) == ""


RATIOS = st.floats(0.01, 30)


@given(st.floats(1, 40), RATIOS)
@example(1.435, 1.435)
@example(1.4, 1.5)
def test_tokens_per_round_divided_by_the_cost_of_a_round_are_the_speed_up(tau: float, ratio: float) -> None:
    made = division(tau, ratio, 2)
    assert made.dividend == f"{tau:.2f}" and made.quotient == ratio_text(ratio)
    assert ratio_text(float(made.dividend) / float(made.divisor)) == made.quotient
    assert abs(float(made.divisor) * ratio - tau) <= 0.12 * ratio + 0.2 * tau  # still that figure


@given(st.floats(0.5, 5000), RATIOS)
@example(66.4, 1.43)
@example(165, 1.435)
def test_two_speeds_divide_as_printed(plain: float, ratio: float) -> None:
    made = rates(plain * ratio, plain)
    assert ratio_text(float(made.dividend) / float(made.divisor)) == made.quotient == ratio_text(plain * ratio / plain)
    assert abs(float(made.divisor) - plain) <= 0.02 * plain + 0.06


def test_figures_keep_few_decimals() -> None:
    assert rates(112.4, 79.2).dividend in ("112", "112.4") and rates(3.2, 2.0).divisor == "2.0"
    assert division(1.98, 1.42, 2).divisor in ("1.39", "1.4")
