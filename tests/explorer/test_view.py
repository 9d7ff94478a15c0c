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
from engine.trace import End, gather, load
from explorer import view as view_module
from explorer.run_form import read_presets
from explorer.view import (
    MAX_RANKS,
    MODEL_LIMITS,
    array_view,
    blank_view,
    closed_view,
    entry_view,
    header_view,
    opened_view,
    packed,
    piece_view,
)
from tests.explorer.scripted import ScriptedSource, scripted_trace


def array_of(view: dict[str, Any]) -> np.ndarray:
    data = np.frombuffer(base64.b64decode(view["data"]), np.dtype(view["dtype"]))
    return data.reshape(view["shape"])


@pytest.mark.parametrize("method", METHODS)
def test_arrays_are_those_of_the_round_and_every_token_is_named(method: str) -> None:
    trace = scripted_trace(method)
    named = {int(token) for token in header_view(trace.header)["pieces"]}
    for entry in trace.entries:
        view, tree, verification = entry_view(entry), entry.round.tree, entry.round.verification
        for name in ("tokens", "parents", "logprobs", "drafters"):
            np.testing.assert_array_equal(array_of(view["tree"][name]), getattr(tree, name))
        for name in ("choice", "logprobs", "entropy", "gap", "offered"):
            np.testing.assert_array_equal(array_of(view["verification"][name]), getattr(verification, name))
        assert view["keep"] == entry.round.acceptance.keep.tolist()
        assert (view["trials"] is None) == (entry.round.acceptance.trials is None)
        named |= {int(token) for token in view["pieces"]}
        assert {view["bonus"], *tree.tokens.tolist(), *verification.choice.tolist()} <= named
        assert all(set(array_of(draft["tokens"]).ravel().tolist()) <= named for draft in view["drafts"])


def test_integers_take_two_bytes_where_they_fit() -> None:
    assert array_view(np.asarray([0, 32767], np.int32))["dtype"] == "<i2"
    assert array_view(np.asarray([0, 32768], np.int32))["dtype"] == "<i4"
    assert array_view(np.asarray([-32769], np.int64))["dtype"] == "<i4"
    assert array_of(array_view(np.zeros((0,), np.int32))).shape == (0,)


def test_the_losing_tree_of_routed_is_the_rejected_one() -> None:
    for entry in scripted_trace("routed").entries:
        (rejected,) = entry_view(entry)["rejected_trees"]
        verified = int(np.bitwise_or.reduce(entry.round.tree.drafters))
        assert rejected["drafter"] == 3 - verified
        np.testing.assert_array_equal(array_of(rejected["tokens"]), entry.round.candidates[2 - verified].tokens)
    for method in ("ddtree", "merged"):
        assert all(entry_view(entry)["rejected_trees"] == [] for entry in scripted_trace(method).entries)


def test_drafts_are_cut_to_what_the_page_shows() -> None:
    entry = scripted_trace("ddtree", 64).entries[0]
    assert entry.round.drafts[0].tokens.shape[2] > MAX_RANKS
    (draft,) = entry_view(entry)["drafts"]
    np.testing.assert_array_equal(array_of(draft["tokens"]), entry.round.drafts[0].tokens[..., :MAX_RANKS])


def test_a_view_opens_and_closes_without_touching_the_earlier_one() -> None:
    trace = scripted_trace("ddtree")
    blank = blank_view("run")
    begun = opened_view(blank, trace.header)
    assert (blank["state"], begun["state"], begun["header"]["method"]) == ("empty", "running", "ddtree")
    assert closed_view(begun, trace.end)["state"] == "done" and begun["end"] is None
    assert closed_view(begun, End("stopped", 2, 0.1))["state"] == "stopped"


@pytest.mark.parametrize(("limit", "most"), [("PIECE_ROUNDS", 2), ("PIECE_BYTES", 1)])
def test_a_long_run_comes_in_pieces_that_make_the_whole(
        limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = scripted_trace("ddtree")
    rounds = list(map(entry_view, trace.entries))
    monkeypatch.setattr(view_module, limit, most)
    pieces = [piece_view("run", trace, first) for first in range(0, len(rounds), most)]
    assert len(pieces) > 2 and sum((piece["rounds"] for piece in pieces), []) == rounds
    assert [bool(piece["header"]) for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    assert all(piece["end"] and (piece["state"], piece["total"]) == ("done", len(rounds)) for piece in pieces)
    beyond = piece_view("run", trace, 10**6)
    assert (beyond["rounds"], beyond["total"]) == ([], len(rounds))


def test_a_view_is_json_with_marks_as_typed_and_packed_it_is_the_same() -> None:
    request = PromptRequest("${7*6} </script>", method="joint", budget=16)
    view = piece_view("run", gather(ScriptedSource().run(request)))
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
    view = piece_view("run", load(tmp_path / "run.jsonl"))
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    assert (view["header"]["method"], view["header"]["engine"], view["header"]["budget"]) == ("theirs", "my loop", None)
    assert view["header"]["note"] == "Recorded in my loop, one round in 2."
    assert [round_["index"] for round_ in view["rounds"]] == [0, 2] and view["rounds"][0]["scores"] == []
    assert view["end"]["remark"] == "1 round was refused as wrong."


TITLE = "demo rig"


def test_how_large_a_model_is_is_said_of_the_rigs_that_ship_alone() -> None:
    cards = {name: json.loads(Path(f"assets/{name}/rig.json").read_text("utf8"))["title"]
             for name in ("demo", "smollm2")}
    count = json.loads(Path("assets/demo/target/training.json").read_text("utf8"))["parameters"]
    assert cards["demo"] == TITLE and f"{count / 1e6:.0f} million parameters" in MODEL_LIMITS[TITLE]
    header = scripted_trace("ddtree", 8).header
    demo = replace(header, rig=TITLE, note="This prompt lies outside what the demo rig was trained for.")
    assert header_view(demo)["model"] == MODEL_LIMITS[TITLE] and header_view(demo)["outside"]
    assert header_view(header)["model"] == header_view(replace(demo, engine="another engine"))["model"] == ""
    assert "135 million parameters" in header_view(replace(header, rig=cards["smollm2"]))["model"]
    assert len(read_presets(Path("assets/prompts")).vetted()["demo"]) == 3, "prompts that it answers right"


@pytest.mark.parametrize(("method", "lossless"), [("ddtree", True), ("nanogpt_ratio", False), ("unknown", None)])
def test_whether_a_method_is_lossless_is_told_where_it_is_known(method: str, lossless: bool | None) -> None:
    header = scripted_trace("ddtree", 8).header
    assert header_view(replace(header, request=replace(header.request, method=method)))["lossless"] is lossless
