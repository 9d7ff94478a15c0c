"""Live runs: in turn, kept, ended when nobody looks any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine.errors import RequestError, RigError
from engine.records import Ask
from engine.trace import Line
from explorer.runs import Runs, Stream, known_trace
from explorer.turns import Turns
from explorer.view import View
from tests.explorer.scripted import ScriptedSource

ASK = Ask("How many books?", "ddtree", 16)


class Failing(ScriptedSource):
    """Ends after two rounds with the given exception."""

    failure: Exception = RigError("The weights are gone; fetch them again.")

    def run(self, ask: Ask) -> Iterator[Line]:
        for count, line in enumerate(super().run(ask)):
            if count == 3:
                raise self.failure
            yield line


def test_the_updates_are_the_whole_run() -> None:
    runs = Runs()
    *_, last = views = list(Stream(ScriptedSource(pause_seconds=0.02), runs, Turns()).watch(ASK))
    trace = known_trace(last["run"], runs)
    assert last["state"] == "done" and last["end"]["reason"] == "stop"
    kept = [entry.round.acceptance.keep.tolist() for entry in trace.entries]
    assert [made["keep"] for made in put_together(views)] == kept
    assert len(views) > 4 and max(len(view["rounds"]) for view in views) < len(kept)


def test_a_browser_may_skip_an_update() -> None:
    runs = Runs()
    views = list(Stream(ScriptedSource(pause_seconds=0.02), runs, Turns()).watch(ASK))
    assert put_together(views[::2] + views[-1:]) == put_together(views)


def put_together(views: list[View]) -> list[View]:
    """The rounds as the stage collects them; a gap between two updates fails."""
    rounds: list[View] = []
    for view in views:
        assert view["from"] <= len(rounds)
        rounds += view["rounds"][len(rounds) - view["from"]:]
    return rounds


def test_closing_ends_the_run_and_keeps_what_was_made() -> None:
    source, runs, turns = ScriptedSource(pause_seconds=0.08), Runs(), Turns()
    stream = Stream(source, runs, turns).watch(ASK)
    views = [next(stream) for _ in range(4)]
    stream.close()
    assert source.closed == 1
    trace = known_trace(views[-1]["run"], runs)
    assert trace.end.reason == "stopped" and len(trace.entries) >= len(views[-1]["rounds"]) > 0
    with turns.place() as place:
        assert place.ahead(0) == 0


def test_a_second_run_waits_and_is_told_its_place() -> None:
    stream = Stream(ScriptedSource(pause_seconds=0.02), Runs(), Turns())
    first, second = stream.watch(ASK), stream.watch(ASK)
    next(first)
    waiting = next(second)
    assert waiting["state"] == "queued" and "One run is ahead" in waiting["message"]
    worker = threading.Thread(target=lambda: list(first))
    worker.start()
    states = [view["state"] for view in second]
    worker.join()
    assert states[-1] == "done"


def test_whoever_leaves_the_line_lets_the_next_one_up() -> None:
    turns = Turns()
    stream = Stream(ScriptedSource(), Runs(), turns)
    first, second, third = (stream.watch(ASK) for _ in range(3))
    next(first)
    next(second)
    assert "2 runs are ahead" in next(third)["message"]
    second.close()
    first.close()
    assert [view["state"] for view in third][-1] == "done"


def test_a_failure_is_a_sentence_and_the_rounds_stay() -> None:
    *_, last = Stream(Failing(), Runs(), Turns()).watch(ASK)
    assert (last["state"], last["message"]) == ("error", "The weights are gone; fetch them again.")
    assert len(last["rounds"]) == 2


def test_an_unforeseen_failure_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    source = Failing()
    source.failure = ZeroDivisionError("hidden detail")
    turns = Turns()
    *_, last = Stream(source, Runs(), turns).watch(ASK)
    assert last["state"] == "error" and "ZeroDivisionError" in last["message"]
    assert "hidden detail" not in last["message"] and "hidden detail" in caplog.text
    *_, after = Stream(ScriptedSource(), Runs(), turns).watch(ASK)
    assert after["state"] == "done"


def test_only_the_latest_runs_are_kept() -> None:
    runs = Runs(most=2)
    stream = Stream(ScriptedSource(), runs, Turns())
    names = [list(stream.watch(ASK))[-1]["run"] for _ in range(3)]
    assert runs.trace(names[0]) is None
    assert runs.trace(names[1]) and runs.trace(names[2])
    with pytest.raises(RequestError, match="There is no run"):
        known_trace(names[0], runs)
