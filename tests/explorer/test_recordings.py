"""Recordings: found, named, compared with plain decoding, and served where there is no model."""

import base64
import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

import app
from engine.errors import RequestError
from engine.records import PromptRequest, Sampling
from engine.trace import dump, dumps, recorded
from explorer.claims import recorded_comparison
from explorer.page import build
from explorer.recordings import Library, Recordings, recorded_rig, shipped
from explorer.rig import CurrentRig
from explorer.rig_choice import loading
from explorer.run_queue import RunQueue
from explorer.runs import Runs, Stream
from explorer.service import Service
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_rigs import answering


@pytest.fixture
def library(tmp_path: Path) -> Library:
    for name, method, budget in (("b_tree", "ddtree", 24), ("a_plain", "autoregressive", 0), ("c_small", "ddtree", 4)):
        dump(recorded(scripted_trace(method, budget), name.upper(), "", "2026-11-20"), tmp_path / f"{name}.jsonl.gz")
    (tmp_path / "d_broken.jsonl").write_text("{}")
    return Library(shipped(tmp_path))


@pytest.fixture
def service(library: Library) -> Service:
    runs = Runs()
    return Service(library, runs, Stream(answering(), runs, RunQueue()))


@pytest.mark.slow
def test_the_page_opens_on_what_the_command_line_names(tmp_path: Path) -> None:
    dump(recorded(scripted_trace("dflash"), "MINE", "", "2026-11-20"), tmp_path / "mine.jsonl")
    def opened(path: Path | None, rig: str) -> str:
        first = app.library(path, rig).first()
        assert first
        return first.name
    assert opened(tmp_path / "mine.jsonl", "demo") == opened(tmp_path, "smollm2") == "mine"
    assert opened(None, "demo") == opened(None, "someone/else") == "welcome"
    assert opened(None, "smollm2") == "smollm2-stack"


def test_the_page_opens_with_the_prompt_of_the_recording_that_it_shows() -> None:
    for rig, shown in (("smollm2", "Stack"), ("demo", "June is 6 times"), ("qwen3-8b", "")):
        library = app.library(None, rig)
        page = build(CurrentRig(recorded_rig(library, "Loading."), coming=loading(rig)), library)
        values = [block["props"].get("value") for block in page.config["components"]
                  if block["props"].get("elem_id") == "canopy-prompt"]
        assert len(values) == 1 and values[0] and (shown in values[0])
        first = library.first()
        assert first and (values[0] == first.trace.header.prompt) == bool(shown)


def test_eight_or_more_recordings_ship_each_with_its_lesson() -> None:
    shipped_ones = app.library(None, "demo")
    assert len(shipped_ones.lessons) >= 8
    for lesson in shipped_ones.summaries():
        assert lesson["title"] != lesson["name"] and lesson["note"].endswith(".") and lesson["recorded"]
        assert lesson["rounds"] > 1 and lesson["tokens_per_second"] > 0
    assert {lesson["name"]: lesson["won"] for lesson in shipped_ones.summaries() if lesson["won"]}.keys() >= {
        "welcome", "smollm2-stack"}, "each rig has one that won"


def test_a_name_that_is_no_utf8_is_shown_escaped_and_opens(tmp_path: Path) -> None:
    mine = recorded(scripted_trace("dflash"), "", "", "2026-11-20")
    for name in (b"caf\xe9.jsonl", b"\xff\xfe.jsonl.gz"):
        dump(mine, tmp_path / os.fsdecode(name))
    library, runs = Library(shipped(tmp_path)), Runs()
    assert sorted(library.lessons) == [r"\xff\xfe", r"caf\xe9"]
    assert sorted(lesson["title"] for lesson in library.summaries()) == sorted(library.lessons)
    service = Service(library, runs, Stream(answering(), runs, RunQueue()))
    assert all(json.loads(service.replay(name))["state"] == "done" for name in library.lessons)
    page = build(answering(), library)
    json.dumps(page.config, ensure_ascii=False).encode()


def test_a_broken_recording_is_left_out(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    assert list(library.lessons) == ["a_plain", "b_tree", "c_small"]
    assert [lesson["title"] for lesson in library.summaries()] == ["A_PLAIN", "B_TREE", "C_SMALL"]
    assert library.summaries()[0]["tau"] == 1.0


def test_a_recording_is_compared_with_the_plain_one_of_the_same_prompt(library: Library) -> None:
    found = library.view(library.lessons["b_tree"])["comparison"]
    assert found["text"]["verdict"] == "same" and "recorded one after the other" in found["speed"]["words"]
    assert found["lanes"]["seconds"][1][-1] > found["lanes"]["seconds"][0][-1] > 0
    for other in (scripted_trace("ddtree", 24, sampling=Sampling(temperature=1.0)),
                  scripted_trace("ddtree", 24, turns=(("user", "Hi"),))):
        assert "comparison" not in library.compared_with_plain("x", recorded(other, "X", "", "2026-11-20"))
    assert "comparison" not in library.view(library.lessons["a_plain"])


def test_recordings_whose_rounds_were_timed_in_turns_say_so() -> None:
    def sentence(*in_turns: bool) -> str:
        traces = [replace(trace, header=replace(trace.header, in_turns=truth)) for trace, truth in zip(
            (scripted_trace("ddtree", 24), scripted_trace("autoregressive", 24)), in_turns, strict=True)]
        return str(recorded_comparison(*traces)["speed"]["words"])
    assert "measured in turns with plain decoding" in sentence(True, True)
    assert "recorded one after the other" in sentence(True, False)


def test_recordings_that_ship_say_only_what_their_traces_show() -> None:
    shipped_ones = app.library(None, "demo")
    for lesson in shipped_ones.lessons.values():
        found = shipped_ones.view(lesson).get("comparison")
        assert found is None or found["text"]["verdict"] == "same" and found["state"] == "ended"
    assert "comparison" in shipped_ones.view(shipped_ones.lessons["welcome"])
    assert "comparison" not in shipped_ones.view(shipped_ones.lessons["routing"])


def test_recordings_answer_what_was_recorded(library: Library) -> None:
    source = Recordings(library, "The rig 'demo' has no weights.")
    lines = list(source.run(PromptRequest("How many books does Omar have? ${7*6}", method="ddtree", budget=5)))
    assert lines[0] is library.lessons["c_small"].trace.header
    with pytest.raises(RequestError, match="The rig 'demo' has no weights"):
        list(source.run(PromptRequest("Something else", method="ddtree", budget=5)))
    with pytest.raises(RequestError, match="Only recorded runs"):
        list(source.run(PromptRequest("How many books does Omar have? ${7*6}", method="ddtree", budget=5,
                            turns=(("user", "Hi"),))))


def test_links_and_replay_files_know_what_a_run_was_compared_with(library: Library) -> None:
    runs, trace = Runs(), scripted_trace("ddtree")
    service = Service(library, runs, Stream(answering(), runs, RunQueue()))
    runs.begin("mine")
    runs.add("mine", trace.header, *trace.entries, trace.end)
    assert "comparison" not in json.loads(service.replay("mine"))
    runs.note("mine", found := {"state": "ended", "text": {"words": "The text parts at word 7."}})
    runs.note("forgotten", found)
    assert json.loads(service.replay("mine"))["comparison"] == found and runs.comparison("forgotten") is None
    page = base64.b64decode(json.loads(service.export({"kind": "replay", "run": "mine"}))["data"]).decode()
    assert "The text parts at word 7." in page
    table = base64.b64decode(json.loads(service.export({"kind": "rounds", "run": "mine"}))["data"]).decode()
    assert "word 7" not in table


def test_the_service_opens_a_file_and_keeps_it(service: Service) -> None:
    data = base64.b64encode(gzip.compress(dumps(scripted_trace("routed")))).decode()
    view = service.open_trace({"name": "mine.jsonl.gz", "data": data})
    assert view["state"] == "done" and json.loads(service.replay(view["run"]))["rounds"] == view["rounds"]
    made = json.loads(service.export({"kind": "rounds", "run": view["run"], "round": 0}))
    assert made["name"].endswith(".csv")


@pytest.mark.slow
@pytest.mark.parametrize(("data", "said"), [
    ("!", "did not arrive whole"), (base64.b64encode(b"nonsense").decode(), "not a Canopy trace"),
    (base64.b64encode(b'{"canopy_trace": 99}\n{}\n').decode(), "version"),
    (base64.b64encode(gzip.compress(dumps(scripted_trace("ddtree")))[:1300]).decode(), "cut off"),
    (base64.b64encode(dumps(scripted_trace("ddtree"))[:4000]).decode(), "cut off"),
    ("", "cut off in its first line"), (base64.b64encode(b"[1, 2, 3]\n").decode(), "not a Canopy trace"),
    (base64.b64encode(b"0" * (33 * 2**20)).decode(), "larger than 32 MiB"),
    (base64.b64encode(gzip.compress(bytes(257 * 2**20), 1)).decode(), "a line of more than 16 MiB"),
])
def test_a_file_that_is_no_trace_is_refused_in_a_sentence(service: Service, data: str, said: str) -> None:
    answer = service.open_trace({"name": "bad.jsonl", "data": data})
    assert said in answer["error"] and answer["error"].endswith(".")


def test_a_file_that_is_cut_off_is_opened_as_far_as_it_goes(service: Service) -> None:
    whole = dumps(scripted_trace("ddtree"))
    second_round = [place for place, byte in enumerate(whole) if byte == 10][2]
    view = service.open_trace({"name": "cut.jsonl", "data": base64.b64encode(whole[:second_round + 9]).decode()})
    assert (view["state"], len(view["rounds"])) == ("stopped", 2)
    assert view["end"]["remark"] == "The file is cut off there."


def test_an_unknown_name_is_refused(service: Service) -> None:
    assert "There is no run" in service.replay("../../etc/passwd")["error"]


def test_the_lessons_of_single_rigs_follow_the_others_each_in_their_own_order(tmp_path: Path) -> None:
    for name, listed in (("lessons", ["b", "a"]), ("lessons-own", ["d", "c"])):
        (tmp_path / f"{name}.json").write_text(json.dumps([{"name": lesson} for lesson in listed]))
    for name in "abcde":
        (tmp_path / f"{name}.jsonl.gz").touch()
    assert [path.name[0] for path in shipped(tmp_path)] == ["b", "a", "d", "c", "e"]


