"""Figures belong to the rig that is loaded: another rig's are shown only on request, and never on the same axes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import RequestError
from explorer.lab.recorded import FIRST_RECORDED, FOLDER, pack, read_packed, shipped
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_lab import FORM, lab_at, measure, measured_lab, wait_for_job

HERE, THERE = "scripted rig", "another rig"
SMALL = {**FORM, "methods": ["ddtree"], "budgets": [8], "prompts": "1"}


def lab_of(folder: Path, rig: str = HERE) -> Any:
    """Return the lab while that rig is loaded, with the folder's results file and recorded sweeps."""
    folder.mkdir(exist_ok=True)
    instruments = ScriptedInstruments()
    instruments.laboratory.conditions = replace(instruments.laboratory.conditions, rig=rig)
    lab = lab_at(folder, instruments=instruments)
    lab.lab.sweeps.recorded = shipped(folder)
    return lab


def record_sweep(folder: Path, name: str, rig: str, **form: Any) -> None:
    """Record a sweep of that rig in the folder."""
    measure(lab_of(folder / name, rig), {**SMALL, **form})
    pack(folder / name / "results.sqlite", folder / f"recorded-{name}.sqlite.gz")


def curve_kinds(answer: dict[str, Any]) -> set[str]:
    """Return the kinds of curves in the figure."""
    return {trace.get("meta") for trace in answer["curves"]["figure"]["data"]} & {
        "swept", "predicted"}


def test_the_lab_opens_on_the_recorded_sweep_of_the_rig_that_is_loaded(tmp_path: Path) -> None:
    record_sweep(tmp_path, "first", THERE)
    record_sweep(tmp_path, "second", HERE)
    record_sweep(tmp_path, "second-several", HERE, concurrency=[1, 2])
    for rig, number in ((THERE, 0), (HERE, -1)):
        progress = lab_of(tmp_path, rig).progress({})
        assert (progress["sweep"], progress["other_rig"]) == (number, "") and rig in progress["recorded"]
    here = lab_of(tmp_path, HERE)
    assert [sweep["concurrency"] for sweep in here.progress({})["sweeps"]] == [1, 1, 2]
    assert {row["concurrency"] for row in here.curves({"sweep": -2, "concurrency": 2})["table"]["rows"]} == {2}
    shown = here.concurrency({})
    assert HERE in shown["recorded"] and len(shown["rows"]) == 2
    rows = lab_of(tmp_path, THERE).concurrency({"sweep": 0})["rows"]
    assert rows[-1]["concurrency"] == 1, "several requests were measured HERE"
    with pytest.raises(RequestError, match="recorded"):
        here.delete({"sweep": -2})


def test_another_rigs_measurement_is_shown_only_on_request_and_marked(tmp_path: Path) -> None:
    elsewhere = measure(lab_of(tmp_path, THERE), SMALL)
    lab = lab_of(tmp_path)
    assert lab.progress({})["sweep"] is None
    asked = lab.progress({"sweep": elsewhere})
    assert (asked["sweep"], asked["other_rig"], asked["recorded"]) == (elsewhere, THERE, "")
    here = measure(lab, SMALL)
    assert lab.progress({})["sweep"] == here
    assert [sweep["other_rig"] for sweep in lab.progress({})["sweeps"]] == [False, True]
    measure(lab_of(tmp_path, THERE), SMALL)
    assert lab.progress({})["sweep"] == here, "another rig's newer sweep does not replace it"


def test_nothing_of_the_loaded_rig_shares_an_axis_with_another_rig(tmp_path: Path) -> None:
    elsewhere = measure(lab_of(tmp_path, THERE), SMALL)
    lab = lab_of(tmp_path)
    here = measure(lab, SMALL)
    wait_for_job(lab, lab.what_if({"run": "r"}))
    asked = {"what_if": "r", "line": "joint"}
    assert curve_kinds(lab.curves({**asked, "sweep": here})) == {"swept", "predicted"}
    alone = lab.curves({**asked, "sweep": elsewhere})
    assert curve_kinds(alone) == {"swept"} and alone["seconds_per_run"] is None


def test_a_prediction_for_a_replaced_rig_is_not_drawn(tmp_path: Path) -> None:
    instruments = ScriptedInstruments()
    lab = lab_at(tmp_path, instruments=instruments)
    wait_for_job(lab, lab.what_if({"run": "r"}))
    instruments.laboratory.conditions = replace(instruments.laboratory.conditions, rig=THERE)
    assert curve_kinds(lab.curves({"what_if": "r"})) == set()


@pytest.mark.slow
def test_the_lab_opens_with_the_recorded_sweep_until_something_is_measured(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "demo rig")
    lab.lab.sweeps.recorded = shipped(FOLDER)
    progress = lab.progress({})
    assert progress["sweep"] == FIRST_RECORDED and progress["recorded"]
    answer = lab.curves({})
    assert len(answer["table"]["rows"]) > 10 and answer["seconds_per_run"] is None  # it was measured on another machine
    assert lab.acceptance({"sweep": FIRST_RECORDED, "nodes": "16"})["lengths"]
    measure(lab)
    assert lab.progress({})["sweep"] == 1 and lab.progress({})["recorded"] == ""
    assert lab.progress({"sweep": FIRST_RECORDED})["recorded"]


def test_a_packed_results_file_is_complete(tmp_path: Path) -> None:
    measured_lab(tmp_path)
    pack(tmp_path / "results.sqlite", tmp_path / "packed.gz")
    packed = read_packed(tmp_path / "packed.gz")
    assert packed.stored.number == FIRST_RECORDED
    assert packed.stored.done == len(packed.measured) == len(packed.stored.plan)
