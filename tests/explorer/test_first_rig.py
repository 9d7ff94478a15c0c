"""The page's first rig: it is loaded once the page is served, runs wait for it, and another one serves in its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import app
from engine.errors import RequestError, RigError
from explorer.lab.service import LabService
from explorer.lessons import Library
from explorer.rig_choice import RigChoice
from explorer.run_queue import RunQueue
from explorer.runs import Runs, Stream
from explorer.sources.answering import AnsweringRig, RigAccess, RigLoad
from explorer.sources.replay import recorded_rig
from tests.explorer.lab.test_sweeps import FORM, until
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_rigs import ScriptedRigs, scripted_rig
from tests.explorer.test_rig_choice import ASK
from tests.running import completed


class FirstRig:
    """A page whose first rig is being loaded, with ``demo`` to fall back on."""

    def __init__(self, name: str, closed: str = "") -> None:
        self.rigs, self.queue = ScriptedRigs(), RunQueue()
        self.rig = AnsweringRig(recorded_rig(Library([]), "Still loading."), coming=RigLoad(name))
        self.choice = RigChoice(self.rig, self.queue, RigAccess(self.rigs, closed))
        self.stream = Stream(self.rig, Runs(), self.queue)
        self.choice.load_first(self.rigs, "demo", lambda reason: recorded_rig(Library([]), reason))

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
