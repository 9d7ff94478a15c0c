"""Sweeps behind the page: in turn, kept, paused, resumed, and what the table says of them."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import RequestError
from engine.lab.store import Store
from engine.records import PromptRequest
from engine.trace import Trace
from explorer.lab.service import LabService
from explorer.lab.sweep_form import PromptSets, plan_from
from explorer.run_queue import RunQueue
from explorer.runs import Runs, Stream
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import answering

FORM = {"methods": ["autoregressive", "ddtree", "joint"], "budgets": [8, 32, 16], "set": "math", "prompts": "2",
        "repeats": 1, "temperature": 0, "max_tokens": 64, "split": "total"}
CELLS = (1 + 2 * 3) * 2


def no_trace(run: str) -> Trace:
    raise RequestError(f"There is no run {run!r}.")


def lab_at(folder: Path, pause_seconds: float = 0.0, queue: RunQueue | None = None) -> LabService:
    return LabService(answering(None, ScriptedInstruments(pause_seconds)), no_trace, queue or RunQueue(),
                      folder / "results.sqlite")


def until(holds: Callable[[], Any]) -> None:
    """Wait, a minute at most: other work may keep the machine busy."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("It did not happen within a minute.")


def state(lab: LabService) -> str:
    return str(lab.progress({})["state"])


def test_a_sweep_measures_every_cell_and_recommends_the_maximum_of_its_table(tmp_path: Path) -> None:
    lab = lab_at(tmp_path)
    number = lab.start(FORM)["sweep"]
    until(lambda: state(lab) == "done")
    progress = lab.progress({"sweep": number})
    assert (progress["done"], progress["total"], progress["failed"]) == (CELLS, CELLS, 0)
    assert progress["command"].startswith("python -m engine sweep --rig scripted --dtype float32")
    table = lab.curves({"sweep": number})["table"]
    assert len(table["rows"]) == 7
    speeds = [row["speed"]["median"] for row in table["rows"]]
    assert speeds == sorted(speeds, reverse=True)
    assert table["best"]["label"] == table["rows"][0]["label"]
    assert table["best"]["speed"]["median"] == max(speeds)
    assert {row["same_text"] == row["compared"] == 2 for row in table["rows"]} == {True}


def test_what_is_not_lossless_is_never_recommended(tmp_path: Path) -> None:
    lab = lab_at(tmp_path)
    lab.start({**FORM, "methods": ["dflash", "nanogpt_ratio"], "budgets": [64]})
    until(lambda: state(lab) == "done")
    table = lab.curves({})["table"]
    assert table["best"]["method"] == "dflash"
    assert [row["lossless"] for row in table["rows"] if row["method"] == "nanogpt_ratio"] == [False]


def test_points_are_there_while_it_measures_and_others_wait(tmp_path: Path) -> None:
    queue = RunQueue()
    lab = lab_at(tmp_path, 0.001, queue)
    lab.start(FORM)
    until(lambda: 2 <= lab.progress({})["done"] < CELLS)
    assert lab.curves({})["curves"]["count"] >= 2
    assert lab.progress({})["seconds_left"] > 0
    stream = Stream(answering(), Runs(), queue).watch(PromptRequest("How many?", method="ddtree", budget=8))
    assert next(stream)["state"] == "queued"
    lab.control({"do": "stop", "sweep": None})
    assert [view["state"] for view in stream][-1] == "done"
    until(lambda: state(lab) == "stopped")


def test_a_sweep_waits_for_the_runs_before_it(tmp_path: Path) -> None:
    queue = RunQueue()
    lab = lab_at(tmp_path, queue=queue)
    with queue.place():
        lab.start(FORM)
        until(lambda: "it has ended" in lab.progress({})["message"])
        assert state(lab) == "queued"
    until(lambda: state(lab) == "done")


@pytest.mark.slow
def test_pause_frees_the_machine_and_resume_goes_on(tmp_path: Path) -> None:
    queue = RunQueue()
    lab = lab_at(tmp_path, 0.001, queue)
    number = lab.start(FORM)["sweep"]
    until(lambda: lab.progress({})["done"] >= 2)
    lab.control({"do": "pause", "sweep": number})
    until(lambda: state(lab) == "paused")
    with queue.place() as place:
        assert place.wait(0).ahead == 0
    done = lab.progress({})["done"]
    assert 2 <= done < CELLS
    lab.control({"do": "resume", "sweep": number})
    until(lambda: state(lab) == "done")
    assert lab.progress({})["done"] == CELLS == len({id(row) for row in lab._sweeps.measured(number)})


@pytest.mark.slow
def test_what_was_measured_survives_the_app(tmp_path: Path) -> None:
    before = lab_at(tmp_path, 0.001)
    number = before.start(FORM)["sweep"]
    until(lambda: before.progress({})["done"] >= 3)
    before.control({"do": "stop", "sweep": number})
    until(lambda: state(before) == "stopped")
    done = before.progress({})["done"]
    after = lab_at(tmp_path)
    assert after.progress({})["done"] == done and state(after) == "stopped"
    assert after.curves({})["table"] == before.curves({})["table"]
    after.control({"do": "resume", "sweep": number})
    until(lambda: state(after) == "done")
    assert after.progress({})["done"] == CELLS


def test_one_sweep_at_a_time(tmp_path: Path) -> None:
    lab = lab_at(tmp_path, 0.01)
    number = lab.start(FORM)["sweep"]
    with pytest.raises(RequestError, match="Sweep 1 is being measured"):
        lab.start(FORM)
    lab.control({"do": "stop", "sweep": number})
    until(lambda: state(lab) == "stopped")


def test_a_results_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path):
        assert "being written" in lab_error(lab_at(tmp_path), FORM)
    path.write_bytes(b"not a database, but long enough to be looked at as one" * 40)
    assert "not a results file" in lab_error(lab_at(tmp_path), FORM)


def lab_error(lab: LabService, form: dict[str, Any]) -> str:
    start = next(answer for answer in lab.functions() if answer.__name__ == "lab_start")
    return str(start(form)["error"])


@pytest.mark.parametrize(("change", "sentence"), [
    ({"methods": []}, "No method besides autoregressive"), ({"methods": ["magic"]}, "no method 'magic'"),
    ({"methods": "ddtree"}, "have to be a list"), ({"budgets": []}, "No node budget"),
    ({"budgets": [-4]}, "A node budget is -4"), ({"budgets": [4.5]}, "whole number"),
    ({"budgets": ["many"]}, "A node budget is 'many'"), ({"set": "nowhere"}, "no prompt set 'nowhere'"),
    ({"prompts": 0}, "How many prompts is 0"), ({"repeats": ""}, "Repeats is empty"),
    ({"temperature": 9}, "The temperature is 9"), ({"max_tokens": 0}, "Max tokens is 0"),
    ({"methods": ["routed"]}, "cannot run routed"), ({"split": "thirds"}, "no split 'thirds'")])
def test_a_form_that_does_not_fit_is_refused_in_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        plan_from({**FORM, **change}, PromptSets(), ScriptedInstruments().laboratory, "scripted")


def test_budgets_are_put_in_order_and_the_baseline_is_always_there() -> None:
    plan = plan_from({**FORM, "methods": ["joint"], "budgets": [32, 8, 8]}, PromptSets(),
                     ScriptedInstruments().laboratory, "scripted")
    assert [(setting.method, setting.budget) for setting in plan.settings] == [
        ("autoregressive", 0), ("joint", 8), ("joint", 32)]


def upload(data: bytes, name: str = "mine.jsonl") -> dict[str, str]:
    return {"name": name, "data": base64.b64encode(data).decode()}


def test_an_uploaded_file_becomes_a_set() -> None:
    sets = PromptSets()
    name = sets.add(upload('{"prompt": "Ein Satz über Bäume"}\n\n{"turns": ["first", "second"]}\n'.encode()))
    assert [prompt.text for prompt in sets.named(name)] == ["Ein Satz über Bäume", "first"]
    assert sets.origin(name) == "mine.jsonl"
    assert sets.view()[-1] == {"name": name, "title": "mine.jsonl", "count": 2}
    assert len(sets.named(sets.add(upload(b'{"prompt": "one"}\n' * 1500)))) == 1500, "a sweep takes a part of a file"


@pytest.mark.parametrize(("file", "sentence"), [
    (upload(b'{"prompt": "one"}\n{"prompt": 7}\n'), "line 2"), (upload(b""), "no prompt"),
    (upload(b"\xff\xfe\x00"), "not UTF-8"), ({"name": "x.jsonl", "data": "%%%"}, "did not arrive whole")])
def test_a_file_that_is_none_is_refused(file: dict[str, str], sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        PromptSets().add(file)


@pytest.mark.slow
def test_shapes_of_a_run_and_of_a_sweep(tmp_path: Path) -> None:
    trace = scripted_trace("joint", 32)
    lab = LabService(answering(None, ScriptedInstruments()), lambda run: trace, RunQueue(), tmp_path / "results.sqlite")
    found = lab.shapes({"run": "any"})
    assert [sum(found["histogram"]["data"][0]["y"])] == pytest.approx([1.0])
    lengths = [len(entry.round.acceptance.keep) for entry in trace.entries]
    assert found["histogram"]["summary"] == f"Tokens per round: joint: mean {sum(lengths) / len(lengths):.2f}."
    assert found["map"]["data"][0]["type"] == "heatmap"
    assert found["calibration"]["data"][0]["name"] == "perfectly calibrated"
    lab.start(FORM)
    until(lambda: state(lab) == "done")
    both = lab.shapes({"sweep": None, "nodes": "16", "line": "joint"})
    assert [each["name"] for each in both["histogram"]["data"]] == ["ddtree", "joint"]
    assert both["map"]["summary"].startswith("Acceptance by depth and rank of joint.")
    with pytest.raises(RequestError, match="Nothing was measured at the budget '5'"):
        lab.shapes({"sweep": None, "nodes": "5", "line": "joint"})
