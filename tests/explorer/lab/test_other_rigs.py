"""Figures belong to the rig that is loaded: another rig's are shown on request only, and alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import RequestError
from engine.lab.replay import WhatIf
from explorer.lab.cost import PredictedCurves, cost_figure, useful_rows
from explorer.lab.recorded import FOLDER, NUMBER, RecordedSweep, pack, shipped
from explorer.lab.service import LabService
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_lab import FORM, ended, lab_of_a_run, measure, measured, state
from tests.running import until

HERE, THERE = "scripted rig", "another rig"
SMALL = {**FORM, "methods": ["ddtree"], "budgets": [8], "prompts": "1"}


def lab_of(folder: Path, rig: str = HERE) -> LabService:
    """The lab while that rig is loaded, over the folder's results file and its recorded sweeps."""
    folder.mkdir(exist_ok=True)
    instruments = ScriptedInstruments()
    instruments.laboratory.conditions = replace(instruments.laboratory.conditions, rig=rig)
    lab = lab_of_a_run(instruments, folder)
    lab._sweeps.recorded = shipped(folder)
    return lab


def ship(folder: Path, name: str, rig: str, **form: Any) -> None:
    """Record a sweep of that rig into the folder."""
    measure(lab_of(folder / name, rig), {**SMALL, **form})
    pack(folder / name / "results.sqlite", folder / f"recorded-{name}.sqlite.gz")


def run_of(rig: str, hardware: str = "no hardware") -> dict[str, Any]:
    return {"run": "r", "method": "joint", "budget": 64, "tau": 3.0, "tokens_per_second": 90.0, "rig": rig,
            "hardware": hardware}


def drawn(answer: dict[str, Any]) -> set[str]:
    """The kinds of curves that the figure has."""
    return {trace.get("meta") for trace in answer["curves"]["figure"]["data"]} & {
        "swept", "runs", "predicted"}


def test_the_lab_opens_on_the_recorded_sweep_of_the_rig_that_is_loaded(tmp_path: Path) -> None:
    ship(tmp_path, "first", THERE)
    ship(tmp_path, "second", HERE)
    ship(tmp_path, "second-several", HERE, concurrency=[1, 2])
    for rig, number in ((THERE, 0), (HERE, -1)):
        progress = lab_of(tmp_path, rig).progress({})
        assert (progress["sweep"], progress["recorded"]["rig"], progress["other_rig"]) == (number, rig, "")
    assert lab_of(tmp_path, HERE).concurrency({})["recorded"]["rig"] == HERE
    rows = lab_of(tmp_path, THERE).concurrency({"sweep": 0})["table"]["rows"]
    assert rows[-1]["concurrency"] == 1, "several requests were measured HERE"


def test_where_there_is_none_it_says_so_and_offers_those_of_others(tmp_path: Path) -> None:
    ship(tmp_path, "first", THERE, concurrency=[1, 2])
    lab = lab_of(tmp_path)
    progress, curves = lab.progress({}), lab.curves({})
    assert (progress["sweep"], progress["recorded"], progress["other_rig"]) == (None, None, "")
    assert (curves["table"], curves["command"], curves["curves"]["count"]) == (None, "", 0)
    assert lab.concurrency({})["count"] == 0
    assert [(each["number"], each["rig"], each["other_rig"]) for each in progress["sweeps"]] == [(0, THERE, True)]


def test_a_measurement_of_another_rig_is_shown_on_request_only_and_marked(tmp_path: Path) -> None:
    elsewhere = measure(lab_of(tmp_path, THERE), SMALL)
    lab = lab_of(tmp_path)
    assert lab.progress({})["sweep"] is None
    asked = lab.progress({"sweep": elsewhere})
    assert (asked["sweep"], asked["other_rig"], asked["recorded"]) == (elsewhere, THERE, None)
    here = measure(lab, SMALL)
    assert lab.progress({})["sweep"] == here
    assert [each["other_rig"] for each in lab.progress({})["sweeps"]] == [False, True]
    measure(lab_of(tmp_path, THERE), SMALL)
    assert lab.progress({})["sweep"] == here, "a newer one of another rig does not take its place"


def test_nothing_of_the_loaded_rig_shares_an_axis_with_another_rig(tmp_path: Path) -> None:
    elsewhere = measure(lab_of(tmp_path, THERE), SMALL)
    lab = lab_of(tmp_path)
    here = measure(lab, SMALL)
    ended(lab, lab.what_if({"run": "r"}))
    asked = {"points": [run_of(HERE)], "what_if": "r", "line": "joint"}
    assert drawn(lab.curves({**asked, "sweep": here})) == {"swept", "runs", "predicted"}
    alone = lab.curves({**asked, "sweep": elsewhere})
    assert drawn(alone) == {"swept"} and alone["seconds_per_run"] is None
    ended(lab, lab.concurrent_cost({"run": "r"}))
    crowd = lab.concurrency({"sweep": elsewhere, "prediction": "r"})
    assert not any(cell["predicted"] for row in crowd["table"]["rows"] for cell in row["cells"] if cell)


@pytest.mark.parametrize("other", [run_of(THERE), run_of(HERE, "another machine"), {"method": "joint"}, "nonsense"])
def test_single_runs_of_another_rig_or_machine_are_left_out(tmp_path: Path, other: Any) -> None:
    lab = lab_of(tmp_path)
    assert lab.curves({"points": [other]})["curves"]["count"] == 0
    assert lab.curves({"points": [run_of(HERE), other]})["curves"]["count"] == 1


def test_a_what_if_of_a_rig_that_is_gone_is_not_drawn(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    ended(lab, lab.what_if({"run": "r"}))
    assert drawn(lab.curves({"what_if": "r"})) == {"predicted"}
    lab._rig.instruments.laboratory.conditions = replace(  # type: ignore[misc]
        lab._rig.instruments.laboratory.conditions, rig=THERE)
    assert drawn(lab.curves({"what_if": "r"})) == set()


def test_a_sweep_that_is_being_measured_is_shown(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    lab.start(SMALL)
    assert lab.progress({})["sweep"] == 1 and state(lab) in ("queued", "running", "done")
    until(lambda: state(lab) == "done")


def forecast() -> WhatIf:
    lab = lab_of_a_run()
    ended(lab, lab.what_if({"run": "r"}))
    found = lab.forecast("r")
    assert found is not None
    return found


@pytest.mark.slow
def test_the_lab_opens_with_it_until_something_is_measured(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "demo rig")
    lab._sweeps.recorded = shipped(FOLDER)
    progress = lab.progress({})
    assert progress["sweep"] == NUMBER and set(progress["recorded"]) == {"date", "rig", "hardware", "dtype"}
    assert all(progress["recorded"].values())
    answer = lab.curves({})
    assert len(answer["table"]["rows"]) > 10 and answer["seconds_per_run"] is None  # of another machine
    assert lab.shapes({"sweep": NUMBER, "nodes": "16"})["histogram"]
    with pytest.raises(RequestError, match="belongs to the page"):
        lab.delete({"sweep": NUMBER})
    measure(lab)
    assert lab.progress({})["sweep"] == 1 and lab.progress({})["recorded"] is None
    assert lab.progress({"sweep": NUMBER})["recorded"]


def test_a_results_file_is_packed_whole(tmp_path: Path) -> None:
    measured(tmp_path)
    pack(tmp_path / "results.sqlite", tmp_path / "packed.gz")
    found = RecordedSweep(tmp_path / "packed.gz")
    assert found.stored.number == NUMBER and found.stored.finished and len(found.measured) == len(found.stored.plan)


@pytest.mark.slow
def test_any_number_of_them_may_ship_and_one_of_several_requests_is_shown(tmp_path: Path) -> None:
    ship(tmp_path, "alone", HERE)
    ship(tmp_path, "crowd", HERE, concurrency=[1, 4])
    page = lab_of(tmp_path)
    progress = page.progress({})
    assert progress["sweep"] == NUMBER and [each["number"] for each in progress["sweeps"]] == [NUMBER, NUMBER - 1]
    assert [each["concurrency"] for each in progress["sweeps"]] == [1, 4]
    chosen = page.progress({"sweep": NUMBER - 1})
    assert chosen["sweep"] == NUMBER - 1 and chosen["recorded"]["rig"] == HERE
    assert {row["concurrency"] for row in page.curves({"sweep": NUMBER - 1, "concurrency": 4})["table"]["rows"]} == {4}
    shown = page.concurrency({"sweep": NUMBER})
    assert len(shown["table"]["rows"]) > 1 and shown["recorded"]
    with pytest.raises(RequestError, match="belongs to the page"):
        page.delete({"sweep": NUMBER - 1})


@pytest.mark.slow
def test_predictions_are_of_one_method_and_equal_work_is_equally_fast() -> None:
    found = forecast()
    first = found.of("ddtree")[1]
    twins = tuple(replace(first, budget=budget, predicted_ms=ms) for budget, ms in ((8, 10.0), (32, 14.0), (128, 11.0)))
    changed = replace(found, forecasts=(*twins, *found.of("joint")))
    curves = PredictedCurves(changed)
    points = curves.points("ddtree")
    assert {point.line for point in points} == {"ddtree"} and len(points) == 3
    assert {point.speed and point.speed.median for point in points} == {1e3 * first.tokens / 11.0}
    assert curves.chosen("nobody") in ("ddtree", "joint") and PredictedCurves(None).chosen("ddtree") == ""


@pytest.mark.slow
def test_the_cost_opens_on_the_rows_that_may_pay() -> None:
    curve = forecast().cost
    assert curve is not None
    most = useful_rows(curve, 20)
    layout = cost_figure(curve, 20)["layout"]
    assert most in curve.rows and 84 <= most < curve.rows[-1]
    assert layout["yaxis"]["type"] == "log" and layout["xaxis"]["range"][1] == pytest.approx(np.log2(most), abs=0.2)
