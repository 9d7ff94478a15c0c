"""Recordings: found, named, compared with plain decoding, served if there is no model; and opened files."""

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import app
from engine.errors import RequestError
from engine.records import PromptRequest, Sampling
from engine.requests.admission import Admission
from engine.trace import Header, as_recording, dump, dumps, encode_record
from explorer.claims import recorded_comparison
from explorer.endpoints import Endpoints
from explorer.page import build
from explorer.recordings import Library, RecordedSource, Recording, recorded_rig, shipped
from explorer.rig import CurrentRig
from explorer.rig_choice import loading
from explorer.runs import RunLog, Runner, Runs
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_rigs import call_function, current_rig

PROMPT = "How many books does Omar have? ${7*6}"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    for name, method, budget in (("b_tree", "ddtree", 24), ("a_plain", "autoregressive", 0), ("c_small", "ddtree", 4)):
        recording = as_recording(scripted_trace(method, budget), name.upper(), "", "2026-11-20")
        dump(recording, tmp_path / f"{name}.jsonl.gz")
    (tmp_path / "d_broken.jsonl").write_text("{}")
    return Library(shipped(tmp_path))


class Calls:
    """Call the endpoints over a library as the browser does; read bytes as JSON."""

    def __init__(self, library: Library) -> None:
        self.runs = Runs()
        self.endpoints = Endpoints(library, self.runs, Runner(current_rig(), self.runs, Admission()))
        self.functions = self.endpoints.functions()

    def __call__(self, name: str, /, **wanted: Any) -> Any:
        answer = call_function(self.functions, name, **wanted)
        return json.loads(answer) if isinstance(answer, bytes) else answer

    def open(self, data: bytes, name: str = "mine.jsonl") -> Any:
        return self("open_trace", name=name, data=base64.b64encode(data).decode())


@pytest.fixture
def calls(library: Library) -> Calls:
    return Calls(library)


def test_the_page_opens_with_the_prompt_of_its_first_recording() -> None:
    for rig, shown in (("smollm2", "palindrome"), ("qwen3-8b", "")):
        library = app.library(None, rig)
        page, _ = build(CurrentRig(recorded_rig(library, "Loading."), first_load=loading(rig)), library)
        (prompt,) = [block["props"].get("value") for block in page.config["components"]
                     if block["props"].get("elem_id") == "canopy-prompt"]
        first = library.first()
        assert prompt and shown in prompt and first and (prompt == first.trace.header.prompt) == bool(shown)


def test_shipped_recordings_have_titles_notes_and_comparisons() -> None:
    library = app.library(None, "demo")
    assert len(library.recordings) >= 8
    for recording in library.summaries():
        assert recording["title"] != recording["name"] and recording["note"].endswith(".") and recording["recorded"]
        assert recording["rounds"] > 1 and recording["tokens_per_second"] > 0
    assert {recording["name"] for recording in library.summaries() if recording["won"]} >= {
        "welcome", "smollm2-palindrome"}, "each rig has one that won"
    compared = {name: library.comparison(name) for name in library.recordings}
    assert all(found is None or (found.text.verdict, found.state) == ("same", "ended") for found in compared.values())
    assert compared["welcome"] and not compared["routing"]


def test_a_recording_is_compared_with_the_plain_one_of_the_same_prompt(library: Library) -> None:
    found = library.comparison("b_tree")
    assert found and found.text.verdict == "same" and found.speed.words and "interleaved" not in found.speed.how
    assert found.tracks.seconds[1][-1] > found.tracks.seconds[0][-1] > 0
    others = [as_recording(scripted_trace("ddtree", 24, **other), title, "", "2026-11-20") for title, other in ((
        "warm", {"sampling": Sampling(temperature=1.0)}), ("later", {"turns": (("user", "Hi"),)}))]
    library.recordings = {**library.recordings,
                          **{trace.header.title: Recording(trace.header.title, trace) for trace in others}}
    assert not any(map(library.comparison, ("a_plain", *(trace.header.title for trace in others))))


def test_recordings_answer_only_recorded_prompts(library: Library) -> None:
    source = RecordedSource(library, "The rig 'demo' has no weights.")
    lines = list(source.prepare(PromptRequest(PROMPT, method="ddtree", budget=5)).lines())
    assert lines[0] is library.recordings["c_small"].trace.header
    joint, plain = (next(source.prepare(PromptRequest(PROMPT, method=method, budget=20)).lines())
                    for method in ("joint", "autoregressive"))
    assert joint is library.recordings["b_tree"].trace.header, "another tree of the same prompt, rather than none"
    assert plain is library.recordings["a_plain"].trace.header
    for other in (PromptRequest("Something else", method="ddtree", budget=5),
                  PromptRequest(PROMPT, method="ddtree", budget=5, turns=(("user", "Hi"),))):
        with pytest.raises(RequestError, match="'demo'"):
            list(source.prepare(other).lines())


def test_links_and_replay_files_keep_the_comparison_of_a_run(calls: Calls) -> None:
    runs, trace = calls.runs, scripted_trace("ddtree")
    runs.store(RunLog.recorded("mine", trace))
    assert calls.endpoints.speed_of("mine") == {}
    comparison = recorded_comparison(trace, scripted_trace("autoregressive", 0))
    calls.endpoints.run_of("mine").set_comparison(comparison)
    assert calls.endpoints.speed_of("mine") == encode_record(comparison.speed)
    page, table = (base64.b64decode(calls("export", kind=kind, run="mine")["data"]).decode()
                   for kind in ("replay", "rounds"))
    assert comparison.text.words in page and comparison.text.words not in table


def test_a_file_is_opened_and_kept_even_if_it_is_truncated(calls: Calls) -> None:
    name = calls.open(gzip.compress(dumps(scripted_trace("routed"))))["run"]
    run = calls.endpoints.run_of(name)
    assert run.state_line["state"] == "done" and len(run.lines) == len(scripted_trace("routed").lines)
    assert isinstance(run.lines[0], Header) and run.lines[0].recorded, "it is shown as a recording"
    assert dumps(calls.endpoints.trace_of(name)) == dumps(scripted_trace("routed"))
    assert calls("export", kind="rounds", run=name, round=0)["name"].endswith(".csv")
    lines = dumps(scripted_trace("ddtree")).splitlines(keepends=True)
    run = calls.endpoints.run_of(calls.open(b"".join(lines[:3]) + lines[3][:8])["run"])
    assert (run.state_line["state"], len(run.lines)) == ("stopped", 4)
    assert "cut off" in run.about["remark"]


@pytest.mark.slow
@pytest.mark.parametrize(("data", "words"), [
    (lambda: b"nonsense", "not a Canopy trace"), (lambda: b'{"canopy_trace": 99}\n{}\n', "version"),
    (lambda: gzip.compress(dumps(scripted_trace("ddtree")))[:1300], "cut off"),
    (lambda: b"", "cut off"), (lambda: b"0" * (33 * 2**20), "32 MiB"),
    (lambda: gzip.compress(bytes(20 * 2**20), 1), "16"),
], ids=["words", "version", "packed", "empty", "large", "line"])
def test_a_file_that_is_no_trace_is_refused_in_a_sentence(calls: Calls, data: Callable[[], bytes], words: str) -> None:
    answer = calls.open(data(), "bad.jsonl")
    assert words in answer["error"] and answer["error"].endswith(".")
