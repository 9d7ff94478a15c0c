"""Lines that describe a run besides its trace; every line is strict JSON."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.records import PromptRequest
from engine.trace import End, Entry, trace_from_lines
from explorer.lines import MODEL_LIMITS, about, encode_up_to, encoded, remark, repetition
from explorer.run_form import read_presets
from explorer.runs import RunLog
from tests.explorer.scripted import ScriptedSource, prompt_for, scripted_trace

DEMO = "demo rig"


def test_only_shipped_rigs_state_their_models_size() -> None:
    cards = {name: json.loads(Path(f"assets/{name}/rig.json").read_text("utf8"))["title"]
             for name in ("demo", "smollm2")}
    count = json.loads(Path("assets/demo/target/training.json").read_text("utf8"))["parameters"]
    assert cards["demo"] == DEMO and f"{count / 1e6:.0f} million parameters" in MODEL_LIMITS[DEMO]
    header = scripted_trace("ddtree", 8).header
    demo = replace(header, rig=DEMO, outside=True)
    assert about(demo)["model_limit"] == MODEL_LIMITS[DEMO] and about(demo)["outside"]
    assert about(header)["model_limit"] == about(replace(demo, engine="another engine"))["model_limit"] == ""
    assert "135 million parameters" in about(replace(header, rig=cards["smollm2"]))["model_limit"]
    assert len(read_presets(Path("assets/prompts")).vetted()["demo"]) == 3, "prompts that it answers right"


@pytest.mark.parametrize(("method", "lossless"), [("ddtree", True), ("nanogpt_ratio", False), ("unknown", None)])
def test_a_known_method_is_marked_lossless_or_not(method: str, lossless: bool | None) -> None:
    header = scripted_trace("ddtree", 8).header
    assert about(replace(header, request=replace(header.request, method=method)))["lossless"] is lossless


@pytest.mark.parametrize(("end", "words"), [
    (End("cut", 3, 1.0), "cut off"), (End("stop", 3, 1.0, dropped=2), "2 rounds were dropped"),
    (End("stop", 3, 1.0, refused=1, note="Theirs."), "1 round was refused as wrong. Theirs."),
    (End("stop", 3, 1.0), "")])
def test_a_remark_names_what_a_file_lacks(end: End, words: str) -> None:
    assert words in remark(end) and bool(words) == bool(remark(end))


@pytest.mark.parametrize(("tokens", "loops"), [(900, True), (150, False)])
def test_a_repetition_is_found_while_the_text_is_written(tokens: int, loops: bool) -> None:
    run, told = RunLog("x"), []
    lines = ScriptedSource().run(PromptRequest(prompt_for(tokens), method="ddtree", budget=16, max_tokens=tokens))
    for line in lines:
        run.add(line)
        told.append(run.about.get("repetition"))
    assert (told[-1] is not None) == loops and any(told[:-1]) == loops
    found, trace = told[-1], run.trace()
    assert trace and repetition(trace) == found
    if found:
        lengths = [len(entry.round.acceptance.keep) for entry in trace.entries]
        before = sum(lengths[:found["round"]])
        assert before <= found["token"] < before + lengths[found["round"]]
        assert f"{before / found['round']:.2f} before" in found["words"] and str(found["token"] + 1) in found["words"]


def test_characters_are_kept_as_typed_and_a_long_run_is_encoded_in_parts() -> None:
    trace = trace_from_lines(ScriptedSource().run(PromptRequest("${7*6} </script>", method="joint", budget=16)))
    lines = [encoded(line) for line in trace.lines]
    assert json.loads(lines[0])["header"]["prompt"] == "${7*6} </script>"
    assert all(line.count(b"\n") == 1 for line in lines)
    assert encode_up_to(trace.lines, 1) == (lines[0], 1)
    assert encode_up_to(trace.lines, 10**9) == (b"".join(lines), len(lines))
    assert isinstance(trace.lines[1], Entry) and encode_up_to(trace.lines[1:], len(lines[1]) + 1)[1] == 2
