"""Plain decoding beside a run: in turns, where nobody waits, with other settings where the run was slower. What is then
said of a run is what the comparison found: forged texts and forged clocks are told apart from true ones."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.lab.against_plain import NEAR_TIE, Difference, TextComparison
from engine.lab.report import ratio_text
from engine.records import Precision, PromptRequest, Round
from engine.trace import End, Line, Trace, gather
from explorer.claims import text_sentence
from explorer.comparison import Comparison, ask_of, others
from explorer.rig import CurrentRig
from explorer.run_queue import RunQueue
from explorer.runs import Runs
from tests.explorer.scripted import STORY, ScriptedSource, going_on
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.running import until

LONG = going_on(150)
OTHER_WORD = " left"  # a token that the script has not


class Forged(ScriptedInstruments):
    """Rounds as ``forge`` changes them: (round, whether it is plain decoding's) to a round."""

    def __init__(self, forge: Callable[[Round, bool], Round], pause_seconds: float = 0.0) -> None:
        super().__init__(pause_seconds)
        self.forge = forge

    def rounds(self, lines: Iterator[Line]) -> Iterator[Round]:
        return (self.forge(made, len(made.tree) == 1) for made in super().rounds(lines))


def timed(made: Round, seconds: float) -> Round:
    return replace(made, seconds={"verify": seconds})


def steadily(made: Round, plain: bool) -> Round:
    """A drafted round takes as long as three plain ones."""
    return timed(made, 0.02 if plain else 0.06)


def standing(instruments: ScriptedInstruments | None = None, pause_seconds: float = 0.0, prompt: str = LONG,
             change: Callable[[Trace], Trace] = lambda trace: trace) -> tuple[Comparison, Trace, RunQueue, Runs]:
    queue, runs = RunQueue(), Runs()
    trace = change(gather(ScriptedSource().run(PromptRequest(prompt, method="ddtree", budget=64, max_tokens=150))))
    runs.begin("mine")
    runs.add("mine", trace.header, *trace.entries, trace.end)
    rig = CurrentRig(instruments or Forged(steadily, pause_seconds))
    return Comparison(rig, lambda run: trace, queue, runs), trace, queue, runs


def ended(comparison: Comparison) -> Any:
    job = comparison.compare({"run": "mine"})
    until(lambda: comparison._jobs.look(job)["state"] not in ("queued", "running"))
    view = comparison._jobs.look(job)
    assert view["state"] == "done", view["message"]
    return view["result"]


def test_plain_decoding_that_alone_would_be_faster_in_another_dtype_is_named() -> None:
    instruments = Forged(lambda made, plain: timed(made, 0.02 if plain else 0.03))
    usual = ended(standing(instruments)[0])["speed"]
    instruments.precision = Precision("float32", "", "bfloat16", 1.6)
    speed = ended(standing(instruments)[0])["speed"]
    assert speed["ratio"] == usual["ratio"] > 1 and "bfloat16" not in usual["words"]
    assert f"about {ratio_text(usual['ratio'] / 1.6)}× as fast" in speed["words"] and "may differ" in speed["words"]


def parted_at_word_7(trace: Trace) -> Trace:
    """The run's text with another word as its seventh."""
    place, seen = 0, 0
    named = trace.header.pieces
    ids = [token for entry in trace.entries for token in entry.round.committed.tolist()]
    while seen < 7:
        seen = len("".join(str(named[token]) for token in ids[:place + 1]).split())
        place += 1
    wrong, other = place - 1, next(token for token, piece in named.items() if piece == OTHER_WORD)
    entries, before = [], 0
    for entry in trace.entries:
        keep, tokens = entry.round.acceptance.keep, entry.round.tree.tokens.copy()
        if before <= wrong < before + len(keep):
            tokens[keep[wrong - before]] = other
        entries.append(replace(entry, round=replace(entry.round, tree=replace(entry.round.tree, tokens=tokens))))
        before += len(keep)
    return replace(trace, entries=tuple(entries))


def test_the_whole_text_is_compared_and_then_said_to_be_the_same() -> None:
    comparison, trace, _, runs = standing()
    found = ended(comparison)
    assert found["state"] == "ended" and found["text"]["verdict"] == "same"
    assert found["text"]["same"] == found["text"]["tokens"] == 150
    assert "word for word: all 150 tokens" in found["text"]["words"]
    assert runs.comparison("mine") == found
    assert "".join(found["lanes"]["texts"]).startswith(STORY[:60])
    assert [len(seconds) for seconds in found["lanes"]["seconds"]] == [150, 150]


def test_another_text_is_said_to_be_one_and_never_word_for_word() -> None:
    comparison, _, _, _ = standing(change=parted_at_word_7)
    found = ended(comparison)
    words = found["text"]["words"]
    assert "at word 7 " in words and "word for word" not in words and " nats apart" in words
    assert found["lanes"]["title"].startswith("Two texts, on one clock")
    assert found["text"]["verdict"] in ("near-tie", "unexplained")


def test_two_equally_likely_tokens_are_no_nats_apart() -> None:
    found = TextComparison(NEAR_TIE, 4, 9, Difference(4, 1, 2, -0.0))
    header = standing()[1].header
    assert "were 0 nats apart: a near-tie" in text_sentence(found, replace(header, dtype="bfloat16"), "ended")


def test_what_is_printed_of_the_speeds_divides() -> None:
    comparison, trace, _, _ = standing()
    speed = ended(comparison)["speed"]
    times = speed["times"][:-1]
    assert ratio_text(float(speed["tau"]) / float(speed["cost"])) == times
    assert ratio_text(float(speed["speed"]) / float(speed["plain_speed"])) == times
    assert float(speed["cost"]) == pytest.approx(3, abs=0.1) and speed["standing"] == "faster"
    low, high = map(float, speed["range"].split(" to "))
    assert low <= float(times) <= high and "in turns" in speed["words"]


def test_a_ratio_that_cannot_be_true_is_not_said() -> None:
    slow, busy = Forged(lambda made, plain: timed(made, 0.02 if plain else 0.01)), Forged(steadily)
    busy.missing = 1.0
    for instruments, reason in ((slow, "larger than"), (busy, "Other programs")):
        speed = ended(standing(instruments)[0])["speed"]
        assert reason in speed["withheld"] and "times" not in speed


def test_a_short_text_is_timed_more_than_once() -> None:
    found = ended(standing(prompt=going_on(20))[0])
    assert found["text"]["same"] == 20 and found["speed"]["withheld"] == ""


def test_nothing_is_measured_while_somebody_else_runs() -> None:
    comparison, _, queue, _ = standing()
    with queue.place(), pytest.raises(Exception, match="in progress"):
        comparison.compare({"run": "mine"})


def test_it_gives_way_to_whoever_comes_and_says_how_far_it_came() -> None:
    comparison, _, queue, runs = standing(pause_seconds=0.01)
    job = comparison.compare({"run": "mine"})
    until(lambda: comparison._jobs.look(job)["result"])
    with queue.place() as place:
        began = time.monotonic()
        while place.wait().ahead:
            assert time.monotonic() - began < 5
    until(lambda: comparison._jobs.look(job)["state"] != "running")
    found = runs.comparison("mine")
    assert found and found["state"] == "cut" and 0 < found["text"]["same"] < 150
    assert f"The first {found['text']['same']} of 150 tokens" in found["text"]["words"]
    assert "word for word" not in found["text"]["words"]


def test_a_run_of_another_machine_is_not_held_against_this_one() -> None:
    comparison, trace, _, runs = standing()
    elsewhere = Comparison(
        comparison._rig, lambda run: replace(trace, header=replace(trace.header, hardware="H200")), RunQueue(), runs)
    with pytest.raises(Exception, match="H200"):
        elsewhere.compare({"run": "mine"})


def test_other_settings_are_auto_and_smaller_budgets() -> None:
    _, trace, _, _ = standing(prompt=STORY)
    assert [(ask.budget, ask.pace) for ask in others(ask_of(trace))] == [(64, "auto"), (16, "fixed"), (4, "fixed")]
    assert others(replace(ask_of(trace), budget=4, pace="auto")) == []
    stopped = replace(trace, entries=trace.entries[:2], end=End("stopped", 2, 1.0))
    assert ask_of(stopped).max_tokens == sum(len(entry.round.acceptance.keep) for entry in trace.entries[:2])
    assert ask_of(trace).max_tokens == 150


def test_a_slow_run_is_told_of_other_settings_and_the_other_precision() -> None:
    def slow(made: Round, plain: bool) -> Round:
        return timed(made, 0.02 if plain else 0.001 * np.sqrt(len(made.tree)) * 40)

    instruments = Forged(slow)
    instruments.other = Forged(slow)
    instruments.other.laboratory.conditions = replace(instruments.laboratory.conditions, dtype="a new one")
    found = ended(standing(instruments)[0])
    assert found["speed"]["standing"] == "slower"
    assert 1 < found["gpu"]["floor"] < found["gpu"]["loop"] < float(found["speed"]["cost"]), "a GPU's rounds cost less"
    assert found["gpu"]["name"] == "qwen3-8b on an H200" and found["gpu"]["caution"].startswith("Predicted")
    assert {(other["budget"], other["pace"], other["dtype"]) for other in found["others"]} == {
        (64, "auto", ""), (16, "fixed", ""), (4, "fixed", ""), (64, "fixed", "a new one")}
    ratios = [other["ratio"] for other in found["others"]]
    assert ratios == sorted(ratios, reverse=True)
    assert all(other["drafted"] == other["rounds"] > 0 for other in found["others"] if other["pace"] == "fixed")
