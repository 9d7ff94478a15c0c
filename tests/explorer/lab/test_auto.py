"""budget=auto and deletion on the page: asked for, measured, drawn, recommended, adopted, forgotten."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from engine.decoding.budget_policy import MOST_AUTO
from engine.errors import RequestError, ResultsError
from engine.lab.store import Results, Store
from explorer.lab.recorded import NUMBER as RECORDED
from explorer.lab.recorded import is_recorded
from explorer.lab.service import LabService
from explorer.lab.sweep_form import OPENING, PromptSets, plan_from
from explorer.page import _setting_values
from tests.explorer.lab.test_sweeps import FORM, lab_at, state, until
from tests.explorer.lab.test_tools import saved
from tests.explorer.scripted_instruments import ScriptedInstruments

PACED = {**FORM, "budgets": ["auto", 8, 16]}


def measured(folder: Path, form: dict[str, Any]) -> LabService:
    lab = lab_at(folder)
    lab.start(form)
    until(lambda: state(lab) == "done")
    return lab


def test_the_form_takes_auto_beside_numbers_and_alone() -> None:
    assert "auto" in OPENING.budgets
    for budgets, labels in ((["auto", 8], ["joint 8", "joint auto"]), (["auto"], ["joint auto"])):
        plan = plan_from({**FORM, "methods": ["joint"], "budgets": budgets}, PromptSets(),
                         ScriptedInstruments().laboratory, "scripted")
        assert [setting.label for setting in plan.settings] == ["autoregressive", *labels]
        assert plan.settings[-1].budget == MOST_AUTO


@pytest.mark.slow
def test_auto_is_measured_drawn_and_told(tmp_path: Path) -> None:
    lab = measured(tmp_path, PACED)
    answer = lab.curves({})
    rows = {row["label"]: row for row in answer["table"]["rows"]}
    assert {"ddtree, auto", "joint, auto"} < set(rows) and len(rows) == 7
    auto = rows["joint, auto"]
    assert (auto["line"], auto["pace"], auto["nodes"], auto["budget"]) == ("joint", "auto", "auto", MOST_AUTO)
    assert auto["same_text"] == auto["compared"] == 2
    assert answer["curves"]["count"] == 7 and answer["curves"]["figure"]["auto"] is not None
    assert answer["table"]["best"]["speed"]["median"] == max(row["speed"]["median"] for row in rows.values())
    assert [trace["name"] for trace in lab.shapes({"sweep": None, "nodes": "auto"})["histogram"]["data"]] == [
        "ddtree", "joint"]
    page, table = saved(lab, "html").decode(), saved(lab, "csv").decode()
    assert "joint, auto" in page and "joint auto" in table
    assert "--budgets 8 16 auto" in lab.progress({})["command"]


@pytest.mark.slow
def test_auto_is_recommended_where_it_is_fastest_and_goes_into_the_controls(tmp_path: Path) -> None:
    lab = measured(tmp_path, {**FORM, "methods": ["joint"], "budgets": [0, "auto"]})
    best = lab.curves({})["table"]["best"]
    assert best["label"] == "joint, auto"
    page = saved(lab, "html").decode()
    assert "Fastest here: joint, auto" in page and "--method joint --budget auto" in page
    assert "Acceptance lengths at the node budget auto" in page
    event: Any = type("Event", (), {"_data": best})()
    assert _setting_values(event)[0] == "joint" and _setting_values(event)[-1] == "auto"


@pytest.mark.slow
def test_a_deleted_sweep_is_gone_and_no_other(tmp_path: Path) -> None:
    lab = measured(tmp_path, FORM)
    lab.start(PACED)
    until(lambda: state(lab) == "done")
    lab.delete({"sweep": 2})
    shipped = [each["number"] for each in lab.progress({"sweep": 2})["sweeps"]]
    assert shipped[:2] == [1, RECORDED] and all(map(is_recorded, shipped[1:]))
    assert len(lab.curves({"sweep": 1})["table"]["rows"]) == 7
    with pytest.raises(ResultsError, match=r"There is no sweep 2 in results\.sqlite"):
        lab.delete({"sweep": 2})
    with pytest.raises(RequestError, match="No measurement was named"):
        lab.delete({})
    with Results(tmp_path / "results.sqlite") as results:
        assert [stored.number for stored in results.sweeps()] == [1]
        assert results._one("SELECT count(*) FROM cell WHERE sweep = 2") == 0
    lab.delete({"sweep": 1})
    assert lab.progress({})["sweep"] is None, "what ships is of another rig"
    assert lab.start(FORM) == {"sweep": 3}  # a number is never given twice
    until(lambda: state(lab) == "done")


def test_what_is_being_measured_is_not_deleted(tmp_path: Path) -> None:
    lab = lab_at(tmp_path, 0.01)
    number = lab.start(FORM)["sweep"]
    with pytest.raises(RequestError, match="is being measured .* stop it before it is deleted"):
        lab.delete({"sweep": number})
    lab.control({"do": "pause", "sweep": number})
    until(lambda: state(lab) == "paused")
    with Store(tmp_path / "results.sqlite"), pytest.raises(ResultsError, match="being written by another sweep"):
        lab.delete({"sweep": number})
    lab.delete({"sweep": number})
    time.sleep(0.05)
    assert lab.progress({})["sweep"] is None
