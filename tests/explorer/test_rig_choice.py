"""Another rig behind the page: loaded while the old one answers, taken when nobody runs, refused in a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import app
from engine.errors import RequestError
from engine.records import Ask
from engine.trace import gather
from explorer.lab import Lab
from explorer.lessons import Library
from explorer.page import build
from explorer.presets import fitting, presets
from explorer.replay import Recordings
from explorer.rig_choice import RigChoice, note_of
from explorer.runs import Runs, Stream
from explorer.serving import FIXED_RIG, Choosing, Serving
from explorer.turns import Turns
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_rigs import ScriptedRigs, scripted_rig
from tests.explorer.test_lab_sweeps import FORM, until

ASK = Ask("How many books?", "ddtree", 16)


class Switching:
    """A rig that answers, and a choice of others."""

    def __init__(self, **given: Any) -> None:
        self.rigs, self.turns = ScriptedRigs(**given), Turns()
        self.first = scripted_rig("first")
        self.serving = Serving(self.first)
        self.choice = RigChoice(self.serving, self.turns, Choosing(self.rigs))

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
    assert gather(made.serving.run(ASK)).header.rig == "first rig" and not made.first.source.released
    made.rigs.go.set()
    now = made.ended()
    assert (now["rig"], now["opened"], now["changes"], now["failure"]) == ("second rig", "second", 1, "")
    assert now["good_at"] == "It is good at second." and made.rigs.beside == ["first rig"]
    assert list(made.serving.methods) == ["autoregressive", "ddtree"]
    assert made.serving.bench.rig == "second" and gather(made.serving.run(ASK)).header.rig == "second rig"
    assert made.rigs.collected == 1 and made.first.source.released


@pytest.mark.parametrize(("failure", "said"), [
    (None, "There is no rig 'nonsense'. The first rig goes on answering."),
    (ZeroDivisionError("hidden"), "nonsense could not be loaded: an internal error (ZeroDivisionError); the server's "
                                  "log has the details. The first rig goes on answering.")])
def test_a_failure_is_a_sentence_and_the_old_rig_goes_on(failure: Exception | None, said: str) -> None:
    made = Switching()
    made.rigs.failure = failure
    made.rigs.go.set()
    made.choice.choose({"rig": "nonsense"})
    now = made.ended()
    assert (now["failure"], now["rig"], now["changes"]) == (said, "first rig", 0)
    assert made.rigs.collected == 1
    made.rigs.failure = None
    made.choice.choose({"rig": "second"})
    assert made.ended()["failure"] == "" and made.serving.rig == "second rig"


def test_cancelled_nothing_changes_and_nothing_is_complained_of() -> None:
    made = Switching()
    made.choice.choose({"rig": "second"})
    assert made.rigs.told.wait(20)
    assert "Cancelling" in made.choice.cancel({})["loading"]["message"]
    made.rigs.go.set()
    now = made.ended()
    assert (now["rig"], now["failure"], now["changes"]) == ("first rig", "", 0)
    assert made.choice.cancel({})["loading"] is None


def test_what_cannot_begin_now_is_refused() -> None:
    made = Switching()
    for wrong in ("", "  ", "x" * 501):
        with pytest.raises(RequestError, match="Name a rig: one of the list"):
            made.choice.choose({"rig": wrong})
    with pytest.raises(RequestError, match="first is the rig that answers already"):
        made.choice.choose({"rig": "first"})
    with made.turns.place(), pytest.raises(RequestError, match="A run or a measurement is in progress"):
        made.choice.choose({"rig": "second"})
    assert made.rigs.beside == []
    made.choice.choose({"rig": "second"})
    with pytest.raises(RequestError, match="second is being loaded; cancel that"):
        made.choice.choose({"rig": "third"})
    made.rigs.go.set()
    made.ended()
    with pytest.raises(RequestError, match="The rig of this page was chosen when it was started"):
        RigChoice(made.serving, made.turns, FIXED_RIG).choose({"rig": "third"})


def test_a_run_that_began_meanwhile_ends_on_its_own_rig() -> None:
    made = Switching()
    stream = Stream(made.serving, Runs(), made.turns)
    made.choice.choose({"rig": "second"})
    assert made.rigs.told.wait(20)
    views = stream.watch(ASK)
    next(views)
    made.rigs.go.set()
    until(lambda: "as soon as the run" in (made.state()["loading"] or {"message": ""})["message"])
    assert list(views)[-1]["header"]["rig"] == made.serving.rig == "first rig"
    assert made.ended()["rig"] == "second rig"
    assert list(stream.watch(ASK))[-1]["header"]["rig"] == "second rig"


def test_loaded_and_waiting_it_can_still_be_cancelled() -> None:
    made = Switching()
    made.choice.choose({"rig": "second"})
    assert made.rigs.told.wait(20)
    with made.turns.place():
        made.rigs.go.set()
        until(lambda: "as soon as the run" in (made.state()["loading"] or {"message": ""})["message"])
        made.choice.cancel({})
        assert made.ended()["rig"] == "first rig"


def test_alone_does_it_only_while_nobody_is_in_line() -> None:
    turns, done = Turns(), []
    with turns.place():
        began = time.monotonic()
        assert not turns.alone(lambda: done.append(1), seconds=0.05)
        assert time.monotonic() - began >= 0.05
    assert turns.alone(lambda: done.append(2)) and done == [2]


def test_the_lab_measures_the_rig_that_answers_and_no_sweep_goes_on_with_another(tmp_path: Path) -> None:
    made = Switching(methods=("autoregressive", "ddtree"))
    lab = Lab(made.serving.bench, lambda run: scripted_trace("joint", 8), made.turns, tmp_path / "results.sqlite")
    number = lab.start(FORM)["sweep"]
    lab.control({"do": "pause", "sweep": number})
    until(lambda: lab.progress({})["state"] == "paused")
    made.rigs.go.set()
    made.choice.choose({"rig": "second"})
    made.ended()
    made.serving.opened.bench.laboratory.asked.clear()
    with pytest.raises(RequestError, match="Sweep 1 was begun on the rig first, and second answers now"):
        lab.control({"do": "resume", "sweep": number})
    lab.start({**FORM, "methods": ["autoregressive", "ddtree"], "prompts": 1})
    until(lambda: lab.progress({})["state"] == "done")
    assert made.serving.opened.bench.laboratory.asked
    assert "--rig second" in lab.progress({})["command"]


def test_presets_follow_the_rig() -> None:
    demo, own = presets(scripted_rig("demo").bench), presets(scripted_rig("own/folder").bench)
    assert demo != own and {"prompt", "title", "name", "method", "budget"} <= own[0].keys()
    assert presets(SimpleNamespace(reason="No model.", rig="x")) == demo  # type: ignore[arg-type]
    assert not {preset["name"] for preset in demo} & {preset["name"] for preset in own}
    assert fitting("joint", ["autoregressive", "joint"]) == "joint"
    assert fitting("joint", ["autoregressive", "ddtree"]) == "ddtree" and fitting("joint", ["a"]) == "a"


def test_a_page_asks_for_what_the_rig_can_do_now() -> None:
    made = scripted_rig("first")
    page = build(made.source, Library([]), made.bench)
    offered = next(each.fn for each in page.fns.values() if getattr(each.fn, "__name__", "") == "offered")
    method, preset = offered("no such method")
    assert method.value == "ddtree" and len(method.choices) == len(made.source.methods)
    assert preset.choices[0][1] == "any-code"
    assert "value" not in offered("joint")[0].constructor_args


def test_named_rigs_say_where_they_come_from() -> None:
    assert note_of("demo") == "lies here, needs no network"
    assert note_of("qwen3-8b") == "Qwen/Qwen3-8B with z-lab/Qwen3-8B-DFlash-b16, from the hub"
    made = Switching()
    assert [each["name"] for each in made.state()["named"]][:2] == ["demo", "qwen3-4b"]


@pytest.mark.parametrize(("flags", "may"), [
    ([], True), (["--host", "localhost"], True), (["--host", "0.0.0.0"], False), (["--rig-choice", "off"], False),
    (["--host", "0.0.0.0", "--rig-choice", "on"], True), (["--host", "0.0.0.0", "--auth", "ada:x"], True)])
def test_strangers_do_not_choose(flags: list[str], may: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: Callable[[str], Any] = lambda name: SimpleNamespace(Rigs=ScriptedRigs)  # noqa: E731
    monkeypatch.setattr(app, "import_module", loaded)
    found = app.choosing(app.flags().parse_args(flags))
    assert (found.rigs is not None) == may == (not found.closed)
    assert may or "start it with --rig-choice on" in found.closed


def test_without_the_packages_no_rig_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name="torch")

    monkeypatch.setattr(app, "import_module", missing)
    assert app.choosing(app.flags().parse_args([])).closed == (
        "No rig can be loaded: the package torch is not installed.")


def test_recordings_give_way_to_a_rig() -> None:
    made = Switching()
    recordings = Recordings(Library([]), "No model.")
    made.serving.take(SimpleNamespace(source=recordings, bench=SimpleNamespace(rig="recordings", reason="No model.")))  # type: ignore[arg-type]
    assert made.state()["reason"] == "No model." and made.state()["good_at"] == ""
    made.rigs.go.set()
    made.choice.choose({"rig": "second"})
    assert made.ended()["rig"] == "second rig"
