"""Sweeps behind the page: queued, kept, paused, resumed, and summarised in the table."""

import base64
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.decoding.budget_policy import MAX_AUTO_NODES
from engine.errors import RequestError, ResultsError
from engine.lab.store import Results, Store
from engine.requests.admission import Admission
from explorer.lab.forms import PromptSets, sweep_plan_from
from explorer.lab.recorded import FIRST_RECORDED as RECORDED
from explorer.lab.recorded import is_recorded
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_lab import FORM, lab_at, measure, measured_lab, saved_file, state
from tests.explorer.scripted_rigs import current_rig, start_run, wait_for_end
from tests.running import until

CELLS = (1 + 2 * 3) * 2


def test_a_sweep_measures_every_cell_and_recommends_the_maximum_of_its_table(tmp_path: Path) -> None:
    lab = lab_at(tmp_path)
    number = measure(lab)
    progress = lab.progress({"sweep": number})
    assert (progress["done"], progress["total"], progress["failed"]) == (CELLS, CELLS, 0)
    assert progress["command"].startswith("python -m engine sweep --rig scripted --dtype float32")
    table = lab.curves({"sweep": number})["table"]
    assert len(table["rows"]) == 7
    speeds = [row["total"]["median"] for row in table["rows"]]
    assert speeds == sorted(speeds, reverse=True)
    assert table["best"]["label"] == table["rows"][0]["label"]
    assert table["best"]["total"]["median"] == max(speeds)
    assert {row["same_text"] == row["compared"] == 2 for row in table["rows"]} == {True}


def test_an_empty_file_left_by_a_full_disk_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "results.sqlite").touch()
    lab = lab_at(tmp_path)
    assert not lab.progress({})["done"]
    assert measure(lab) == 1


def test_curves_and_table_are_of_the_requested_category(tmp_path: Path) -> None:
    lab = measured_lab(tmp_path, {**FORM, "set": "all", "prompts": 8, "methods": ["ddtree"], "budgets": [8]})
    kinds = ["code", "explain", "math", "mixed"]
    answers = [lab.curves({"category": category}) for category in ("", *kinds, "nothing")]
    assert all(answer["categories"] == kinds for answer in answers)
    assert [answer["category"] for answer in answers] == ["", *kinds, ""]
    assert [{row["runs"] for row in answer["table"]["rows"]} for answer in answers] == [{8}, {2}, {2}, {2}, {2}, {8}]
    assert all(answer["kinds"].keys() == set(kinds) for answer in answers)
    assert [answers[0]["kinds"][kind]["label"] for kind in kinds] == [
        answer["table"]["best"]["label"] for answer in answers[1:5]]
    tree = next(row for row in answers[0]["table"]["rows"] if row["method"] == "ddtree")
    assert tree["break_even"]["median"] > 1


def test_points_appear_during_a_sweep_while_others_wait(tmp_path: Path) -> None:
    queue = Admission()
    lab = lab_at(tmp_path, 0.001, queue)
    lab.start(FORM)
    until(lambda: 2 <= lab.progress({})["done"] < CELLS)
    assert lab.curves({})["curves"]["count"] >= 2
    assert lab.progress({})["seconds_left"] > 0
    run = start_run(current_rig(), queue=queue)
    until(lambda: run.state_line["state"] == "queued")
    lab.control({"do": "stop", "sweep": None})
    assert wait_for_end(run).state_line["state"] == "done"
    until(lambda: state(lab) == "stopped")


def test_a_sweep_waits_for_the_runs_before_it(tmp_path: Path) -> None:
    queue = Admission()
    lab = lab_at(tmp_path, queue=queue)
    with queue.enter():
        lab.start(FORM)
        until(lambda: "yours is number 1" in lab.progress({})["message"])
        assert state(lab) == "queued"
    until(lambda: state(lab) == "done")


@pytest.mark.slow
@pytest.mark.parametrize(("do", "ended", "restarted"), [("pause", "paused", False), ("stop", "stopped", True)])
def test_an_ended_sweep_frees_the_machine_and_can_resume_in_another_app(
        tmp_path: Path, do: str, ended: str, restarted: bool) -> None:
    queue = Admission()
    lab = lab_at(tmp_path, 0.001, queue)
    number = lab.start(FORM)["sweep"]
    until(lambda: lab.progress({})["done"] >= 2)
    lab.control({"do": do, "sweep": number})
    until(lambda: state(lab) == ended)
    with queue.enter() as entry:
        assert entry.admitted
    done, table = lab.progress({})["done"], lab.curves({})["table"]
    assert 2 <= done < CELLS
    lab = lab_at(tmp_path) if restarted else lab
    assert (state(lab), lab.progress({})["done"], lab.curves({})["table"]) == (ended, done, table)
    lab.control({"do": "resume", "sweep": number})
    until(lambda: state(lab) == "done")
    assert lab.progress({})["done"] == CELLS == len({id(row) for row in lab.lab.sweeps.results_of(number)})


@pytest.mark.parametrize(("change", "sentence"), [
    ({"methods": []}, "No method besides autoregressive"), ({"methods": "ddtree"}, "have to be a list"),
    ({"methods": ["routed"]}, "cannot run routed"), ({"budgets": []}, "No node budget"),
    ({"budgets": ["many"]}, "The node budget is 'many'"), ({"set": "nowhere"}, "no prompt set 'nowhere'"),
    ({"prompts": 0}, "How many prompts is 0"), ({"repeats": ""}, "Repeats is empty"),
    ({"temperature": 9}, "The temperature is 9"), ({"max_tokens": 0}, "Max tokens is 0"),
    ({"split": "thirds"}, "split is 'thirds'"), ({"concurrency": [65]}, "at once is 65"),
    ({"concurrency": "4"}, "have to be a list")])
def test_a_form_that_does_not_fit_is_refused_in_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        sweep_plan_from({**FORM, **change}, PromptSets(), ScriptedInstruments())


def upload(data: bytes, name: str = "mine.jsonl") -> dict[str, str]:
    return {"name": name, "data": base64.b64encode(data).decode()}


def test_an_uploaded_file_becomes_a_prompt_set() -> None:
    sets = PromptSets()
    name = sets.add(upload('{"prompt": "Ein Satz über Bäume"}\n\n{"turns": ["first", "second"]}\n'.encode()))
    assert [prompt.text for prompt in sets.named(name)] == ["Ein Satz über Bäume", "first"]
    assert sets.origin(name) == "mine.jsonl"
    assert sets.view()[-1] == {"name": name, "title": "mine.jsonl", "count": 2}
    assert len(sets.named(sets.add(upload(b'{"prompt": "one"}\n' * 1500)))) == 1500, "a sweep takes a part of a file"


@pytest.mark.parametrize(("file", "sentence"), [
    (upload(b'{"prompt": "one"}\n{"prompt": 7}\n'), "line 2"), (upload(b""), "no prompt"),
    (upload(b"\xff\xfe\x00"), "not UTF-8"), ({"name": "x.jsonl", "data": "%%%"}, "did not arrive whole")])
def test_an_invalid_prompt_file_is_refused(file: dict[str, str], sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        PromptSets().add(file)


@pytest.mark.slow
def test_acceptance_is_shown_for_a_run_and_for_a_sweep(tmp_path: Path) -> None:
    trace = scripted_trace("joint", 32)
    lab = lab_at(tmp_path)
    run = lab.acceptance({"run": "any"})
    assert sum(run["lengths"]["data"][0]["y"]) == pytest.approx(1.0)
    lengths = [len(entry.round.acceptance.keep) for entry in trace.entries]
    assert f"mean {sum(lengths) / len(lengths):.2f}" in run["lengths"]["summary"]
    heat = run["map"]["data"][0]
    assert heat["type"] == "heatmap" and run["calibration"] and run["nodes"]
    few = [text for row, counts in zip(heat["text"], heat["customdata"], strict=True)
           for text, (_, proposed) in zip(row, counts, strict=True) if 0 < proposed < 10]
    assert few and all("/" in text for text in few), "a percentage of few proposals would look certain"
    points = run["calibration"]["data"][1]
    assert points["mode"] == "markers" and set(points["marker"]["symbol"]) <= {"circle", "circle-open"}
    measure(lab)
    swept = lab.acceptance({"sweep": None, "nodes": "16", "line": "joint"})
    assert swept["lengths"]["data"][0]["name"] == "joint" and "joint" in swept["map"]["summary"]
    assert "nodes" not in swept, "other trees are known only for single runs"
    assert lab.acceptance({"sweep": None, "nodes": "16", "line": "nobody"})["lengths"]["data"][0]["name"] == "ddtree"
    with pytest.raises(RequestError, match="'5'"):
        lab.acceptance({"sweep": None, "nodes": "5", "line": "joint"})


PACED = {**FORM, "budgets": ["auto", 8, 16]}


@pytest.mark.slow
def test_auto_is_measured_drawn_and_described(tmp_path: Path) -> None:
    lab = measured_lab(tmp_path, PACED)
    answer = lab.curves({})
    rows = {row["label"]: row for row in answer["table"]["rows"]}
    assert {"ddtree, auto", "joint, auto"} < set(rows) and len(rows) == answer["curves"]["count"] == 7
    auto = rows["joint, auto"]
    assert (auto["line"], auto["pace"], auto["nodes"], auto["budget"]) == ("joint", "auto", "auto", MAX_AUTO_NODES)
    assert auto["same_text"] == auto["compared"] == 2 and answer["curves"]["figure"]["auto"] is not None
    assert lab.acceptance({"sweep": None, "nodes": "auto", "line": "joint"})["lengths"]["data"][0]["name"] == "joint"
    assert "joint auto" in saved_file(lab, "csv").decode() and "--budgets 8 16 auto" in lab.progress({})["command"]


@pytest.mark.slow
def test_deleting_a_sweep_deletes_no_other(tmp_path: Path) -> None:
    lab = measured_lab(tmp_path, FORM)
    measure(lab, PACED)
    lab.delete({"sweep": 2})
    shipped = [sweep["number"] for sweep in lab.progress({"sweep": 2})["sweeps"]]
    assert shipped[:2] == [1, RECORDED] and all(map(is_recorded, shipped[1:]))
    assert len(lab.curves({"sweep": 1})["table"]["rows"]) == 7
    with pytest.raises(ResultsError, match=r"2.*results\.sqlite"):
        lab.delete({"sweep": 2})
    with pytest.raises(RequestError, match="named"):
        lab.delete({})
    with Results(tmp_path / "results.sqlite") as results:
        assert [stored.number for stored in results.sweeps()] == [1]
    with closing(sqlite3.connect(tmp_path / "results.sqlite")) as file:
        assert file.execute("SELECT count(*) FROM cell WHERE sweep = 2").fetchall() == [(0,)]
    lab.delete({"sweep": 1})
    assert lab.progress({})["sweep"] is None, "shipped sweeps belong to another rig"
    assert measure(lab) == 3, "numbers are never reused"


def test_one_sweep_is_measured_at_a_time_and_cannot_be_deleted_meanwhile(tmp_path: Path) -> None:
    lab = lab_at(tmp_path, 0.01)
    number = lab.start(FORM)["sweep"]
    with pytest.raises(RequestError, match="Sweep 1"):
        lab.start(FORM)
    with pytest.raises(RequestError, match=f"Sweep {number} "):
        lab.delete({"sweep": number})
    lab.control({"do": "pause", "sweep": number})
    until(lambda: state(lab) == "paused")
    with Store(tmp_path / "results.sqlite"), pytest.raises(ResultsError, match="results.sqlite"):
        lab.delete({"sweep": number})
    lab.delete({"sweep": number})
    assert lab.progress({})["sweep"] is None
