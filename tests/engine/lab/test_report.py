"""A report holds what was measured, and dividing two printed values gives the printed third."""

import csv
import io
import json
from dataclasses import replace

import pytest

from engine.lab.report import Record, runs_csv, table_csv
from engine.lab.settings import CellResult, SweepPlan
from tests.engine.lab.scripted import measure_all, report_of, toy_plan


@pytest.fixture(scope="module")
def plan() -> SweepPlan:
    return toy_plan(prompts=4, methods=("dflash", "merged"))


@pytest.fixture(scope="module")
def measured(plan: SweepPlan) -> list[CellResult]:
    results = measure_all(plan)
    return [replace(results[0], reading=None, failure="The prompt is too long."), *results[1:]]


@pytest.fixture(scope="module")
def record(plan: SweepPlan, measured: list[CellResult]) -> Record:
    return report_of(plan, measured)


def csv_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_report_is_plain_json_of_the_measured_rounds(record: Record) -> None:
    assert json.loads(json.dumps(record, allow_nan=False)) == json.loads(json.dumps(record))
    assert [record[name] for name in ("sweep", "rig", "hardware", "dtype", "versions")] == [
        3, "toy", "no hardware", "float32", {"toy": "1"}]
    assert [record[name] for name in ("cells", "done", "failed", "complete")] == [40, 40, 1, True]
    assert [failure["failure"] for failure in record["failures"]] == ["The prompt is too long."]
    assert list(record["categories"]) == ["even", "odd"]
    for number, row in enumerate(record["rows"]):
        parts = [rows[number] for rows in record["categories"].values()]
        assert {part["label"] for part in parts} == {row["label"]}
        assert all(sum(part[count] for part in parts) == row[count] for count in ("runs", "failed", "tokens", "rounds"))
        (counts,) = [of_setting["counts"] for of_setting in record["histograms"] if of_setting["label"] == row["label"]]
        assert sum(counts) == row["rounds"]
        assert sum(length * count for length, count in enumerate(counts, 1)) == row["tokens"]
    assert {row["label"] for row in record["calibration"]} == {row["label"] for row in record["rows"] if row["budget"]}


def test_the_csv_files_hold_the_table_and_every_run(
        record: Record, plan: SweepPlan, measured: list[CellResult]) -> None:
    rows = csv_rows(table_csv(record))
    assert [(row["label"], float(row["tokens_per_second"])) for row in rows] == [
        (row["label"], row["tokens_per_second"]) for row in record["rows"]]
    assert [row["label"] for row in rows if row["recommended"] == "True"] == [record["recommended"]["label"]]
    assert {(row["hardware"], row["command"]) for row in rows} == {("no hardware", record["command"])}
    runs = csv_rows(runs_csv(plan, measured))
    assert len(runs) == len(measured)
    assert (runs[0]["failure"], runs[0]["tau"]) == ("The prompt is too long.", "")
    assert [float(run["tau"]) for run in runs[1:]] == [result.reading.tau for result in measured if result.reading]


def test_a_report_of_nothing_recommends_nothing(plan: SweepPlan) -> None:
    nothing = report_of(plan, [])
    assert [nothing[name] for name in ("rows", "recommended", "complete", "load")] == [[], None, False, {}]
    assert table_csv(nothing) == runs_csv(plan, []) == ""
