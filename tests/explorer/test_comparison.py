"""Plain decoding beside a run: measured where nobody waits, with other settings where the run was slower."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from engine.records import Ask
from engine.trace import Trace, gather
from explorer.comparison import Comparison, TimedRun, ask_of, others
from explorer.lessons import tokens_per_second
from explorer.rig import LoadedRig
from explorer.run_queue import RunQueue
from explorer.sources.answering import AnsweringRig
from tests.explorer.scripted import STORY, ScriptedSource
from tests.explorer.scripted_instruments import ScriptedInstruments


def standing(pause_seconds: float = 0.0) -> tuple[Comparison, Trace, RunQueue]:
    source, queue = ScriptedSource(pause_seconds), RunQueue()
    trace = gather(source.run(Ask(STORY, method="ddtree", budget=64)))
    rig = AnsweringRig(LoadedRig(source, ScriptedInstruments()))
    return Comparison(rig, lambda run: trace, queue), trace, queue


def result(comparison: Comparison) -> Any:
    job = comparison.compare({"run": "mine"})["job"]
    for _ in range(600):
        view = comparison.compared({"job": job})
        if view["state"] not in ("queued", "running"):
            return view
        time.sleep(0.02)
    raise AssertionError("It did not end.")


def test_plain_decoding_is_measured_with_its_clock() -> None:
    comparison, trace, _ = standing()
    view = result(comparison)
    assert view["state"] == "done", view["message"]
    found = view["result"]
    assert found["tokens_per_second"] == pytest.approx(len(found["seconds"]) / found["seconds"][-1])
    slower = tokens_per_second(trace) < found["tokens_per_second"]
    assert bool(found["others"]) == slower
    speeds = [other["tokens_per_second"] for other in found["others"]]
    assert speeds == sorted(speeds, reverse=True)


def test_nothing_is_measured_while_somebody_else_runs() -> None:
    comparison, _, queue = standing()
    with queue.place(), pytest.raises(Exception, match="in progress"):
        comparison.compare({"run": "mine"})


def test_it_gives_way_to_whoever_comes() -> None:
    comparison, _, queue = standing(0.01)
    job = comparison.compare({"run": "mine"})["job"]
    while comparison.compared({"job": job})["state"] == "queued":
        time.sleep(0.005)
    with queue.place() as place:
        began = time.monotonic()
        while place.ahead():
            assert time.monotonic() - began < 5
    time.sleep(0.05)
    assert comparison.compared({"job": job})["result"] is None


def test_a_run_of_another_machine_is_not_held_against_this_one() -> None:
    comparison, trace, _ = standing()
    elsewhere = Comparison(
        comparison._rig, lambda run: replace(trace, header=replace(trace.header, hardware="H200")), RunQueue())
    with pytest.raises(Exception, match="H200"):
        elsewhere.compare({"run": "mine"})


def test_other_settings_are_auto_and_smaller_budgets() -> None:
    _, trace, _ = standing()
    assert [(ask.budget, ask.pace) for ask in others(ask_of(trace))] == [(64, "auto"), (16, "fixed"), (4, "fixed")]
    assert others(replace(ask_of(trace), budget=4, pace="auto")) == []


def test_unequal_times_of_equal_rounds_are_noticed() -> None:
    assert not TimedRun((1,) * 6, (1.0, 1.02, 0.98, 1.0, 1.01, 0.99)).unsteady
    assert TimedRun((1,) * 6, (1.0, 2.0, 0.9, 1.8, 1.0, 2.2)).unsteady


def test_the_other_precision_is_among_what_a_slow_run_is_told() -> None:
    source, instruments = ScriptedSource(), ScriptedInstruments()
    instruments.other = ScriptedSource(dtype="a new one")
    trace = gather(source.run(Ask(STORY, method="ddtree", budget=64)))
    slow = replace(trace, entries=tuple(replace(entry, round=replace(entry.round, seconds={"verify": 9.0}))
                                        for entry in trace.entries))
    comparison = Comparison(AnsweringRig(LoadedRig(source, instruments)), lambda run: slow, RunQueue())
    others = result(comparison)["result"]["others"]
    assert {(each["budget"], each["pace"], each["dtype"]) for each in others} == {
        (64, "auto", ""), (16, "fixed", ""), (4, "fixed", ""), (64, "fixed", "a new one")}
    assert all(each["drafted"] == each["rounds"] > 0 for each in others if each["pace"] == "fixed")
