"""The JSON that the stage draws: complete, and exact."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.decoding.methods import METHODS
from engine.recorder import Recorder
from engine.records import PromptRequest
from engine.trace import End, load
from explorer import view as view_module
from explorer.run_form import read_presets
from explorer.view import (
    LIMITS,
    MOST_RANKS,
    array_view,
    blank_view,
    closed_view,
    entry_view,
    header_view,
    opened_view,
    packed,
    piece_view,
    run_view,
)
from tests.explorer.scripted import ScriptedSource, scripted_trace


def array_of(view: dict[str, Any]) -> np.ndarray:
    data = np.frombuffer(base64.b64decode(view["data"]), np.dtype(view["dtype"]))
    return data.reshape(view["shape"])


@pytest.mark.parametrize("method", METHODS)
def test_every_token_is_named(method: str) -> None:
    trace = scripted_trace(method)
    view = run_view("run", (trace.header, *trace.entries, trace.end))
    named = {int(token) for token in view["header"]["pieces"]}
    for made in view["rounds"]:
        named |= {int(token) for token in made["pieces"]}
        seen = {made["bonus"], *array_of(made["tree"]["tokens"]).tolist(),
                *array_of(made["verification"]["choice"]).tolist()}
        for draft in made["drafts"]:
            seen |= set(array_of(draft["tokens"]).ravel().tolist())
        assert seen <= named


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_arrays_are_those_of_the_round(method: str) -> None:
    for entry in scripted_trace(method).entries:
        view, tree = entry_view(entry), entry.round.tree
        for name in ("tokens", "parents", "logprobs", "drafters"):
            np.testing.assert_array_equal(array_of(view["tree"][name]), getattr(tree, name))
        for name in ("choice", "logprobs", "entropy", "gap", "offered"):
            np.testing.assert_array_equal(array_of(view["verification"][name]), getattr(entry.round.verification, name))
        assert view["keep"] == entry.round.acceptance.keep.tolist()
        assert (view["trials"] is None) == (entry.round.acceptance.trials is None)


def test_integers_take_two_bytes_where_they_fit() -> None:
    assert array_view(np.asarray([0, 32767], np.int32))["dtype"] == "<i2"
    assert array_view(np.asarray([0, 32768], np.int32))["dtype"] == "<i4"
    assert array_view(np.asarray([-32769], np.int64))["dtype"] == "<i4"
    assert array_of(array_view(np.zeros((0,), np.int32))).shape == (0,)


def test_the_losing_tree_of_routed_is_the_ghost() -> None:
    trace = scripted_trace("routed")
    for entry in trace.entries:
        ghosts = entry_view(entry)["ghosts"]
        verified = int(np.bitwise_or.reduce(entry.round.tree.drafters))
        assert [ghost["drafter"] for ghost in ghosts] == [3 - verified]
        lost = entry.round.candidates[2 - verified]
        np.testing.assert_array_equal(array_of(ghosts[0]["tokens"]), lost.tokens)


@pytest.mark.parametrize("method", ["ddtree", "merged"])
def test_no_ghost_where_every_tree_is_verified(method: str) -> None:
    assert all(entry_view(entry)["ghosts"] == [] for entry in scripted_trace(method).entries)


def test_drafts_are_cut_to_what_the_page_shows() -> None:
    entry = scripted_trace("ddtree", 64).entries[0]
    assert entry.round.drafts[0].tokens.shape[2] > MOST_RANKS
    (draft,) = entry_view(entry)["drafts"]
    np.testing.assert_array_equal(array_of(draft["tokens"]), entry.round.drafts[0].tokens[..., :MOST_RANKS])


def test_a_view_opens_and_closes_without_touching_the_earlier_one() -> None:
    trace = scripted_trace("ddtree")
    blank = blank_view("run")
    begun = opened_view(blank, trace.header)
    assert (blank["state"], begun["state"], begun["header"]["method"]) == ("empty", "running", "ddtree")
    assert closed_view(begun, trace.end)["state"] == "done" and begun["end"] is None
    assert closed_view(begun, End("stopped", 2, 0.1))["state"] == "stopped"


def test_a_long_run_comes_in_pieces_that_make_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = scripted_trace("ddtree")
    whole = run_view("run", (trace.header, *trace.entries, trace.end))
    for name, most in (("PIECE_ROUNDS", 2), ("PIECE_BYTES", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(view_module, name, most)
            pieces = [piece_view("run", trace)]
            while sum(len(piece["rounds"]) for piece in pieces) < pieces[-1]["total"]:
                pieces.append(piece_view("run", trace, sum(len(piece["rounds"]) for piece in pieces)))
        assert len(pieces) == -(-len(trace.entries) // most) > 2
        assert sum((piece["rounds"] for piece in pieces), []) == whole["rounds"]
        assert [bool(piece["header"]) for piece in pieces] == [True] + [False] * (len(pieces) - 1)
        assert all(piece["end"] == whole["end"] and piece["state"] == "done" for piece in pieces)
    beyond = piece_view("run", trace, 10**6)
    assert (beyond["rounds"], beyond["total"]) == ([], len(trace.entries))


def test_a_view_is_json_with_marks_as_typed_and_packed_it_is_the_same() -> None:
    view = run_view("run", ScriptedSource().run(PromptRequest("${7*6} </script>", method="joint", budget=16)))
    assert view["header"]["prompt"] == "${7*6} </script>" and "</script>" in json.dumps(view)
    view["header"]["title"] = '"rounds":[]'
    assert json.loads(packed(view)) == json.loads(json.dumps(view)) and "<" not in packed(view)
    assert packed(None) == "null" and json.loads(packed(blank_view("x"))) == blank_view("x")


def test_a_round_of_which_little_was_recorded_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.jsonl", method="theirs", engine="my loop", every=2) as recorder:
        for bonus in (9, 8, 7):
            recorder.round(tokens=[7, 3], parents=[-1, 0], keep=[0, 1], bonus=bonus)
        recorder.round(tokens=[7], parents=[5], keep=[0], bonus=9)
        recorder.round(tokens=[7], parents=[5], keep=[0], bonus=9)
    trace = load(tmp_path / "run.jsonl")
    view = run_view("run", (trace.header, *trace.entries, trace.end))
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    assert (view["header"]["method"], view["header"]["engine"], view["header"]["budget"]) == ("theirs", "my loop", None)
    assert view["header"]["note"] == "Recorded in my loop, one round in 2."
    assert [made["index"] for made in view["rounds"]] == [0, 2]
    assert view["rounds"][0]["scores"] == []
    assert view["end"]["remark"] == "1 round was refused as wrong."


DEMO, TITLE = Path("assets/demo"), "demo rig"


def test_the_number_is_that_of_the_weights() -> None:
    count = json.loads((DEMO / "target" / "training.json").read_text("utf8"))["parameters"]
    assert f"{count / 1e6:.0f} million parameters" in LIMITS[TITLE]
    assert json.loads((DEMO / "rig.json").read_text("utf8"))["title"] == TITLE


def test_it_is_said_of_that_rig_alone() -> None:
    header = scripted_trace("ddtree", 8).header
    assert header_view(header)["model"] == ""
    own = replace(header, rig=TITLE, note="This prompt lies outside what the demo rig was trained for.")
    assert header_view(own)["model"] == LIMITS[TITLE] and header_view(own)["outside"]
    assert header_view(replace(own, engine="another engine"))["model"] == ""
    small = json.loads(Path("assets/smollm2/rig.json").read_text("utf8"))["title"]
    assert "135 million parameters" in header_view(replace(header, rig=small))["model"]


def test_whether_a_method_is_lossless_is_told_where_it_is_known() -> None:
    header = replace(scripted_trace("ddtree", 8).header, rig=TITLE)
    biased = replace(header, request=replace(header.request, method="nanogpt_ratio"))
    assert (header_view(header)["lossless"], header_view(biased)["lossless"]) == (True, False)
    retired = replace(header, request=replace(header.request, method="unknown"))
    assert header_view(retired)["lossless"] is None and header_view(retired)["model"] == LIMITS[TITLE]
    outside = replace(header, request=replace(header.request, method="theirs"), engine="another engine")
    assert header_view(outside)["lossless"] is None and header_view(outside)["model"] == ""


def test_the_prompts_that_it_answers_right_are_presets() -> None:
    right = read_presets(Path("assets/prompts")).vetted()["demo"]
    assert len(right) == 3 and all(preset["prompt"] and preset["label"] for preset in right)
