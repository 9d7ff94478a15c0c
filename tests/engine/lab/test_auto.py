"""budget=auto beside fixed budgets: planned, stored, resumed, told in the report, raced."""

from __future__ import annotations

import csv
import io
import json
import shlex
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Event

from engine.decoding.budget_policy import MOST_AUTO
from engine.lab.race import lanes, race_plan, run_race
from engine.lab.report import report, table_csv
from engine.lab.settings import CellResult, Setting
from engine.lab.store import Results, Store
from engine.lab.summary import summarise
from engine.lab.sweeping import LocalCrew, run_sweep
from tests.engine.lab.scripted import ScriptedLaboratory, toy_plan

PLAN = replace(toy_plan(auto_budget=MOST_AUTO), prompt_set="bench")
LABORATORY = ScriptedLaboratory()
AUTO_LABELS = {"ddtree auto", "joint auto"}


def begun(path: Path) -> None:
    """A sweep with eleven of its cells done."""
    with Store(path) as store:
        number = store.begin(PLAN, LABORATORY.conditions)
        assert len(list(islice(run_sweep(store, number, LocalCrew(LABORATORY), Event()), 11))) == 11


def finished(path: Path) -> list[CellResult]:
    """The same, resumed and measured to its end."""
    begun(path)
    with Store(path) as store:
        steps = list(run_sweep(store, 1, LocalCrew(LABORATORY), Event()))
        assert len(steps) == len(PLAN) - 11 and store.sweep(1).finished
        assert not list(run_sweep(store, 1, LocalCrew(LABORATORY), Event()))
    with Results(path) as results:
        return results.measured(1)


def test_a_sweep_with_auto_is_stored_and_resumed(tmp_path: Path) -> None:
    measured = finished(tmp_path / "results.sqlite")
    assert len({found.cell for found in measured}) == len(measured) == len(PLAN)
    rows: dict[str, set[int]] = {}
    for found in measured:
        assert found.reading
        rows.setdefault(found.cell.setting.label, set()).update(found.reading.rows)
    assert {label for label, sizes in rows.items() if len(sizes) > 1} == AUTO_LABELS  # a fixed budget has one size
    assert all(row.same_text == row.compared == 6 for row in summarise(PLAN.settings, measured).rows)


def test_a_file_from_before_auto_is_read_and_goes_on(tmp_path: Path) -> None:
    path, plan = tmp_path / "results.sqlite", toy_plan()
    with Store(path) as store:
        store.begin(plan, LABORATORY.conditions)
        list(islice(run_sweep(store, 1, LocalCrew(LABORATORY), Event()), 3))
        before = json.loads(store._one("SELECT plan FROM sweep"))
        for setting in before["settings"]:
            assert setting.pop("pace") == "fixed"
        store._all("UPDATE sweep SET plan = ?", json.dumps(before))
    with Store(path) as store:
        assert store.sweep(1).plan == plan and len(store.measured(1)) == 3
        assert len(list(run_sweep(store, 1, LocalCrew(LABORATORY), Event()))) == len(plan) - 3
        store.begin(PLAN, LABORATORY.conditions)  # one with auto lies beside it in the same file
        assert [stored.plan for stored in store.sweeps()] == [plan, PLAN]


def test_the_report_names_auto_and_may_recommend_it(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    measured = finished(path)
    with Results(path) as results:
        stored = results.sweep(1)
    slow = [found if found.cell.setting.label in AUTO_LABELS or found.reading is None else replace(
        found, reading=replace(found.reading, round_seconds=tuple(9 * each for each in found.reading.round_seconds)))
        for found in measured]
    made = report(stored, slow)
    assert {row["label"] for row in made["rows"] if row["pace"] == "auto"} == AUTO_LABELS
    best = made["recommended"]
    assert best["label"] in AUTO_LABELS
    assert best["tokens_per_second"] == max(row["tokens_per_second"] for row in made["rows"])
    rows = list(csv.DictReader(io.StringIO(table_csv(made))))
    assert [(row["label"], row["pace"]) for row in rows if row["recommended"] == "True"] == [(best["label"], "auto")]
    assert f"--method {best['method']} --budget auto" in best["command"]
    assert "auto" in shlex.split(made["command"])


def test_a_race_has_an_auto_lane_with_the_same_text() -> None:
    wanted = (Setting("ddtree", 16), Setting("ddtree", MOST_AUTO, pace="auto"))
    plan = race_plan(replace(toy_plan(prompts=1, repeats=3), settings=wanted))
    race = lanes(plan, list(run_race(LABORATORY, plan, Event())), LABORATORY)
    assert [lane.setting.label for lane in race.lanes] == ["autoregressive", "ddtree 16", "ddtree auto"]
    fixed, auto = race.lanes[1:]
    assert fixed.shown and auto.shown and auto.speedup
    assert auto.difference is None and auto.shown.token_ids == fixed.shown.token_ids
    assert set(auto.shown.rows) != set(fixed.shown.rows)
