"""A run is compared with plain decoding: interleaved, while nobody waits, and with other settings if it was slower. The
page then states only what the comparison found: altered texts and clocks are recognised."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.errors import RequestError
from engine.lab.against_plain import BUSY, NEAR_TIE, RATIO_ABOVE_TAU, Difference, TextComparison
from engine.lab.repetition import repetition_in, rounds_within
from engine.lab.speed import rate_text, ratio_text
from engine.records import Precision, PromptRequest, Round
from engine.requests.admission import Admission
from engine.trace import Line, Trace, encode_record, pieces_of, tau, trace_from_lines
from explorer.claims import text_sentence
from explorer.comparison import MAX_TIMINGS, Comparison
from explorer.rig import CurrentRig
from explorer.runs import RunLog, Runner, Runs
from tests.explorer.scripted import CURVE, STORY, ScriptedSource, prompt_for
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import ASK, call_function
from tests.running import until

OTHER_WORD = " left"  # a token that is not in the script
Seconds = Callable[[Round], float]


class FixedTimes(ScriptedInstruments):
    """Make plain rounds take 0.02 s, and drafted ones as long as ``seconds`` returns."""

    def __init__(self, seconds: Seconds = lambda round_: 0.06, pause_seconds: float = 0.0) -> None:
        super().__init__(pause_seconds)
        self.seconds = seconds

    def rounds(self, lines: Iterator[Line]) -> Iterator[Round]:
        return (replace(round_, seconds={"verify": 0.02 if len(round_.tree) == 1 else self.seconds(round_)})
                for round_ in super().rounds(lines))


class ComparedRun:
    """Hold a run of the script that has ended, and compare it."""

    def __init__(self, instruments: ScriptedInstruments | None = None, prompt: str = prompt_for(150),
                 max_tokens: int = 150, change: Callable[[Trace], Trace] = lambda trace: trace,
                 fastest_budget: int = 0) -> None:
        self.queue, self.runs = Admission(), Runs()
        request = PromptRequest(prompt, method="ddtree", budget=64, max_tokens=max_tokens)
        self.trace = change(trace_from_lines(ScriptedSource().run(request)))
        self.runs.add(self.runs.register(RunLog("mine")), *self.trace.lines)
        rig = CurrentRig(instruments or FixedTimes())
        self.comparison = Comparison(rig, lambda run: self.trace, self.queue, self.runs, lambda run: fastest_budget)

    def remembered(self) -> Any:
        """Return the comparison that is stored with the run."""
        return encode_record(self.runs.find("mine").about["comparison"])

    def start(self) -> Callable[[], Any]:
        """Start the comparison; return a function that polls it."""
        job = self.comparison.compare({"run": "mine"})
        return lambda: call_function(self.comparison.functions(), "compared", **job)

    def result(self) -> Any:
        look = self.start()
        until(lambda: look()["state"] not in ("queued", "running"))
        assert look()["state"] == "done", look()["message"]
        return look()["result"]


def test_a_dtype_that_makes_only_plain_decoding_faster_is_named() -> None:
    instruments = FixedTimes(lambda round_: 0.03)
    usual = ComparedRun(instruments).result()["speed"]
    instruments.precision = Precision("float32", "", "bfloat16", 1.6)
    speed = ComparedRun(instruments).result()["speed"]
    assert speed["ratio"] == usual["ratio"] > 1 and "bfloat16" not in usual["words"]
    assert f"about {ratio_text(usual['ratio'] / 1.6)}× as fast" in speed["words"] and "may differ" in speed["words"]


@pytest.mark.parametrize("plain_ms", [CURVE.plain_ms, CURVE.plain_ms / 4])
def test_pass_costs_that_contradict_the_measured_ratio_are_measured_again(plain_ms: float) -> None:
    instruments = FixedTimes()
    instruments.cost = known = replace(CURVE, plain_ms=plain_ms, repeats=3)
    ComparedRun(instruments).result()
    assert (instruments.cost is known) == (plain_ms == CURVE.plain_ms)


def change_word_7(trace: Trace) -> Trace:
    """Replace the seventh word of the run's text."""
    named = trace.header.pieces
    ids = [token for entry in trace.entries for token in entry.round.committed.tolist()]
    wrong = next(count for count in range(len(ids))
                 if len("".join(str(named[token]) for token in ids[:count + 1]).split()) == 7)
    other = next(token for token, piece in named.items() if piece == OTHER_WORD)
    entries, before = [], 0
    for entry in trace.entries:
        keep, tokens = entry.round.acceptance.keep, entry.round.tree.tokens.copy()
        if before <= wrong < before + len(keep):
            tokens[keep[wrong - before]] = other
        entries.append(replace(entry, round=replace(entry.round, tree=replace(entry.round.tree, tokens=tokens))))
        before += len(keep)
    return replace(trace, entries=tuple(entries))


def test_the_whole_text_is_compared_and_printed_speeds_agree_with_the_ratio() -> None:
    compared = ComparedRun()
    result = compared.result()
    text, speed, tracks = result["text"], result["speed"], result["tracks"]
    assert (result["state"], text["verdict"], text["same"], text["tokens"]) == ("ended", "same", 150, 150)
    assert "150" in text["words"] and compared.remembered() == result
    assert "".join(tracks["texts"]).startswith(STORY[:60]) and list(map(len, tracks["seconds"])) == [150, 150]
    times = speed["times"][:-1]
    assert ratio_text(float(speed["tau"]) / float(speed["cost"])) == times
    assert ratio_text(float(speed["speed"]) / float(speed["plain_speed"])) == times
    assert float(speed["cost"]) == pytest.approx(3, abs=0.1) and speed["outcome"] == "faster"
    assert "interleaved" in speed["how"]
    low, high = map(float, speed["range"].split(" to "))
    assert low <= float(times) <= high and speed["words"]
    for name, end, seconds in zip(("speed", "plain_speed"), tracks["ends"], tracks["seconds"], strict=True):
        assert rate_text(150 / float(end)) == speed[name] and seconds[-1] == pytest.approx(float(end), rel=0.01)


def test_a_different_text_is_never_called_the_same() -> None:
    result = ComparedRun(change=change_word_7).result()
    words = result["text"]["words"]
    assert "at word 7 (" in words and "word for word" not in words
    assert result["text"]["verdict"] in ("near-tie", "unexplained")
    tie = TextComparison(NEAR_TIE, 4, 9, Difference(4, 1, 2, -0.0))
    header = replace(ComparedRun().trace.header, dtype="bfloat16")
    assert NEAR_TIE in text_sentence(tie, header, "ended")


class BusyAtFirst(FixedTimes):
    """Other programs are at work until so many timings have ended."""

    def __init__(self, busy_timings: int) -> None:
        super().__init__()
        self.busy_timings = busy_timings

    @contextmanager
    def interleaved(self, *given: Any, **options: Any) -> Iterator[Any]:
        self.missing = float(self.busy_timings > 0)
        self.busy_timings -= 1
        with super().interleaved(*given, **options) as timed:
            yield timed

    def missing_processors(self) -> float:
        missing, self.missing = self.missing, 0.0
        return missing


@pytest.mark.parametrize("busy_timings", [MAX_TIMINGS - 1, MAX_TIMINGS])
def test_a_run_is_timed_again_if_the_machine_was_busy(busy_timings: int) -> None:
    speed = ComparedRun(BusyAtFirst(busy_timings)).result()["speed"]
    assert bool(speed["withheld"]) == (busy_timings == MAX_TIMINGS)


def test_an_impossible_ratio_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.comparison.MAX_QUIET_WAIT_SECONDS", 0.1)
    busy = FixedTimes()
    busy.missing = 1.0
    for instruments, reason in ((FixedTimes(lambda round_: 0.01), RATIO_ABOVE_TAU), (busy, BUSY)):
        speed = ComparedRun(instruments).result()["speed"]
        assert reason in speed["withheld"] and not speed["times"] and not speed["words"] and speed["again"]


def test_a_repetition_is_left_out_of_speeds_and_tracks() -> None:
    compared = ComparedRun(prompt=prompt_for(900), max_tokens=900)
    rounds = compared.trace.rounds
    start = repetition_in(rounds, pieces_of(compared.trace))
    assert start and start < 300
    result = compared.result()
    before = rounds[:rounds_within(rounds, start)]
    kept = sum(len(round_.acceptance.keep) for round_ in before)
    assert result["text"]["tokens"] == 900 and result["speed"]["tau"] == f"{tau(before):.2f}"
    assert [len(side) for side in (result["tracks"]["texts"], *result["tracks"]["seconds"])] == [kept] * 3
    assert str(kept) in result["tracks"]["title"]


def test_no_run_is_compared_while_another_runs_or_if_it_is_from_another_machine() -> None:
    compared = ComparedRun()
    with compared.queue.enter(), pytest.raises(RequestError):
        compared.start()
    compared.trace = replace(compared.trace, header=replace(compared.trace.header, hardware="H200"))
    with pytest.raises(Exception, match="H200"):
        compared.start()


def test_rounds_that_a_stopped_run_adds_before_it_ends_are_compared_too() -> None:
    compared = ComparedRun()
    whole = compared.trace
    compared.trace = replace(whole, entries=whole.entries[:-2])
    with compared.queue.enter(run="mine"):
        look = compared.start()
        compared.trace = whole
    until(lambda: look()["state"] == "done")
    assert look()["result"]["text"]["tokens"] == 150


def test_a_comparison_yields_to_a_run_and_keeps_its_partial_result() -> None:
    compared = ComparedRun(FixedTimes(pause_seconds=0.01))
    look = compared.start()
    until(lambda: look()["result"])
    began = time.monotonic()
    with compared.queue.enter() as entry:
        until(lambda: entry.admitted)
        assert time.monotonic() - began < 5
    until(lambda: look()["state"] != "running")
    result = compared.remembered()
    assert result and result["state"] == "interrupted" and 0 < result["text"]["same"] < 150
    assert f" {result['text']['same']} of 150 " in result["text"]["words"]


@pytest.mark.parametrize("stage", ["in turns", "cost"])
def test_the_next_prompt_does_not_wait_for_the_last_ones_measurement(stage: str) -> None:
    instruments = FixedTimes(pause_seconds=0.1 if stage == "in turns" else 0.0)
    instruments.cost_seconds = 20.0
    compared = ComparedRun(instruments)
    look = compared.start()
    until(lambda: look()["result"] if stage == "in turns" else instruments.measuring_cost.is_set())
    began = time.monotonic()
    run = Runner(CurrentRig(ScriptedInstruments()), compared.runs, compared.queue).start(ASK)
    until(run.trace)
    assert time.monotonic() - began < 2
    run.stop()
    until(lambda: look()["state"] == "done")
    result = look()["result"]
    assert (result["state"], bool(result["speed"]["withheld"])) == (
        ("interrupted", True) if stage == "in turns" else ("ended", False)), "partial measurements are kept"


@pytest.mark.parametrize(("predicted", "tried"), [(0, 16), (8, 8), (128, 16)])
def test_a_slow_run_gets_other_settings_and_the_other_precision(predicted: int, tried: int) -> None:
    def slow(round_: Round) -> float:
        return 0.04 * float(np.sqrt(len(round_.tree)))

    instruments = FixedTimes(slow)
    instruments.other = FixedTimes(slow)
    instruments.other.laboratory.conditions = replace(instruments.laboratory.conditions, dtype="a new one")
    result = ComparedRun(instruments, fastest_budget=predicted).result()
    assert result["speed"]["outcome"] == "slower"
    assert {(other["budget"], other["pace"], other["dtype"]) for other in result["others"]} == {
        (64, "auto", ""), (tried, "fixed", ""), (4, "fixed", ""), (64, "fixed", "a new one")}
    ratios = [other["ratio"] for other in result["others"]]
    assert ratios == sorted(ratios, reverse=True)
