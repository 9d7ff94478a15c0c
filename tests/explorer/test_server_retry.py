"""A server that does not answer at first: the page goes on asking, says so, and takes it when it answers. A run that
waits for a silent one ends at once when it is stopped."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import pytest

from engine.errors import ServerError
from engine.records import PromptRequest
from explorer.lessons import Library
from explorer.rig_choice import RigChoice
from explorer.run_queue import RunQueue
from explorer.runs import Runs, Stream
from explorer.sources import attached
from explorer.sources.answering import AnsweringRig, RigAccess, RigLoad
from explorer.sources.attached import attach
from explorer.sources.replay import recorded_rig
from tests.engine.servers.scripted_server import CHAT, DONE, MODELS, chunk, scripted, streams
from tests.engine.servers.test_client import PLAIN, drips
from tests.explorer.lab.test_sweeps import until
from tests.explorer.scripted_rigs import ScriptedRigs, scripted_rig
from tests.explorer.test_attached import ASK

ADDRESS = "http://127.0.0.1:9"


class Rigs(ScriptedRigs):
    """See ``RigOpener``: the server is asked, and answers once ``up`` is set; every other rig is there at once."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.asked = Event(), 0

    def open(self, name: str, beside: Any, tell: Any) -> Any:
        if name != ADDRESS:
            return scripted_rig(name)
        self.asked += 1
        tell("Asking …", None)
        if not self.up.is_set():
            raise ServerError(f"{name} said nothing for 60 s; it may be too busy, or stuck.")
        return scripted_rig(name)


def page_of(rigs: Rigs, pauses: tuple[float, ...], monkeypatch: pytest.MonkeyPatch) -> RigChoice:
    """A page that was started with the server as its rig, and settled for another."""
    monkeypatch.setattr(attached, "PAUSES", pauses)
    rig = AnsweringRig(recorded_rig(Library([]), "Still loading."), coming=RigLoad(ADDRESS))
    choice = RigChoice(rig, RunQueue(), RigAccess(rigs))
    choice.load_first(rigs, "demo", lambda reason: recorded_rig(Library([]), reason))
    until(lambda: not choice.state({})["coming"])
    return choice


def test_a_silent_server_is_asked_again_and_taken_when_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    rigs = Rigs()
    choice = page_of(rigs, (0.05,), monkeypatch)
    now = choice.state({})
    assert now["rig"] == "demo rig" and "said nothing for 60 s" in now["failure"]
    assert now["retry"]["name"] == ADDRESS
    until(lambda: rigs.asked > 3)
    assert "s ago" in choice.state({})["retry"]["said"] or "again now" in choice.state({})["retry"]["said"]
    rigs.up.set()
    until(lambda: choice.state({})["rig"] == f"{ADDRESS} rig")
    until(lambda: choice.state({})["retry"] is None)
    assert choice.state({})["failure"] == "" and choice.state({})["changes"] == 2
    asked = rigs.asked
    time.sleep(0.3)
    assert rigs.asked == asked, "it is asked no more"


def test_it_is_asked_again_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    rigs = Rigs()
    choice = page_of(rigs, (600.0,), monkeypatch)
    assert rigs.asked == 1 and "has been asked once" in choice.state({})["retry"]["said"]
    choice.retry({})
    until(lambda: rigs.asked == 2)
    until(lambda: "2 times" in choice.state({})["retry"]["said"])
    rigs.up.set()
    choice.retry({})
    until(lambda: choice.state({})["rig"] == f"{ADDRESS} rig")


def test_whoever_chooses_another_rig_waits_for_the_server_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rigs = Rigs()
    choice = page_of(rigs, (0.2,), monkeypatch)
    choice.choose({"rig": "second"})
    until(lambda: choice.state({})["rig"] == "second rig")
    assert choice.state({})["retry"] is None
    rigs.up.set()
    asked = rigs.asked
    time.sleep(0.6)
    assert rigs.asked <= asked + 1 and choice.state({})["rig"] == "second rig"


@pytest.mark.parametrize("first", [b"", chunk("a") + chunk("b")], ids=["before the first token", "in the middle"])
def test_a_run_that_waits_for_a_server_ends_at_once_when_it_is_stopped(first: bytes) -> None:
    gone = Event()

    def say(handler: Any) -> None:
        drips(PLAIN + first, b": still here\n", 0.05)(handler)
        gone.set()

    with scripted(models=MODELS, chat=streams(chunk("a"), DONE)) as script:
        rig, queue = AnsweringRig(attach(script.address, lambda *_: None)), RunQueue()
        script.said[CHAT] = say
        views = Stream(rig, Runs(), queue).watch(ASK)
        seen = [next(views) for _ in range(8)]  # it goes on giving views, so that it can be closed
        assert all(view["state"] == "running" for view in seen) and queue.begun() == 1
        began = time.monotonic()
        views.close()
        assert gone.wait(10) and queue.begun() == 0 and time.monotonic() - began < 10


def test_no_round_is_lost_where_a_browser_skips_what_repeats_itself() -> None:
    parts = [chunk(letter) for letter in "abcdef"]
    with scripted(models=MODELS, chat=streams(*parts, lambda: time.sleep(1.5), chunk("g"), DONE)) as script:
        views = list(Stream(AnsweringRig(attach(script.address, lambda *_: None)), Runs(), RunQueue()).watch(
            PromptRequest("x", method=ASK.method)))
    shown = [view for view in views if view["rounds"]]
    silent = [view for view in shown if view["from"] + len(view["rounds"]) == 5]
    assert len(silent) >= 3, "a view now and then while it is silent"
    assert len({view["from"] for view in silent}) <= 2, "and each holds what the ones before it may have brought"
