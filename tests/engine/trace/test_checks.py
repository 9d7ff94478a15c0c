"""Every value of a trace has the type and range of its field, or the file is refused with that value's name."""

import json
import re
from typing import Any

import numpy as np
import pytest

from engine.errors import TraceError
from engine.trace import Trace, dumps, encode_record, loads
from tests.engine.test_trace import toy_trace
from tests.engine.trace.test_limits import array

LINES = [json.loads(line) for line in dumps(toy_trace("ddtree", most=6)).splitlines()]
NAN = float("nan")
KEPT = LINES[1]["round"]["acceptance"]["keep"]["shape"][0]


def alternatives(count: int, token: int = 1, logprob: float = 0.0) -> dict[str, Any]:
    """Return ``count`` alternatives for each kept row of the first round."""
    return {"tokens": encode_record(np.full((KEPT, count), token, np.int32)),
            "logprobs": encode_record(np.full((KEPT, count), logprob, np.float32))}


def read_changed(number: int, path: str, value: Any) -> Trace:
    """Read the trace with one value of one line replaced."""
    lines = json.loads(json.dumps(LINES))
    *folders, last = path.split(".")
    part = lines[number]
    for folder in folders:
        part = part[folder]
    part[last] = value
    return loads(("\n".join(map(json.dumps, lines)) + "\n").encode())


@pytest.mark.parametrize(("path", "value"), [  # test_recorder.py has what a recorder refuses
    ("request.prompt_ids", {}), ("request.prompt_ids", [2**31]), ("request.prompt_ids", [True]),
    ("request.prompt_ids", {"dtype": "<f4", "shape": [1], "data": "AAAAAA=="}), ("request.stop_ids", [-1]),
    ("request.budget", 2**64), ("request.pace", None), ("request.more", 1), ("request.sampling.temperature", NAN),
    ("request.sampling.more", 1), ("request", None), ("prompt", "\ud83d"), ("prompt", "x" * (2**20 + 1)),
    ("drafters", ["x"] * 17), ("revisions", []), ("revisions", {"a": 1}), ("recorded", {}), ("every", 0),
    ("pieces", []), ("pieces", {"-1": "a"}), ("pieces", {"٣": "a"}), ("pieces", {"1": [256]}), ("pieces", {"1": 1}),
    ("pieces", {"99999999999": "a"}), ("pieces", {"1": "x" * 1025}), ("turns", [["user", "\ud800"]]),
    ("turns", 7), ("turns", [["owner", "Hi"]]), ("chunked", 1), ("more", 1)])
def test_a_header_is_checked(path: str, value: Any) -> None:
    with pytest.raises(TraceError, match="line 1 "):
        read_changed(0, f"header.{path}", value)


@pytest.mark.parametrize(("path", "value"), [
    ("elapsed_seconds", NAN), ("elapsed_seconds", 10**400), ("round.index", 1.0), ("round.start", 2**31 - 1),
    ("round.acceptance.bonus", None), ("round.seconds", []), ("round.drafts", 7), ("round.candidates", {}),
    ("round.tree.tokens.shape", [-1]), ("round.tree.tokens.shape", "7"), ("round.tree.tokens.shape", [2**40]),
    ("round.tree.tokens.data", "é"), ("round.tree.tokens.data", "!!!!"), ("round.tree.tokens.dtype", "|O"),
    ("round.acceptance.trials", []), ("round.alternatives", []), ("round.alternatives", {}),
    ("round.alternatives", {"tokens": {"dtype": "<i4", "shape": [1, 1], "data": "AAAAAA=="}}),
    ("round.alternatives", alternatives(65)), ("round.alternatives", alternatives(64, token=-1)),
    ("round.alternatives", alternatives(64, logprob=2.0)),
    ("round.acceptance.trials", {"nodes": encode_record(np.ones(2**14 + 1, np.int32)),
                                 "chances": array(2**14 + 1, dtype="<f4"), "draws": array(2**14 + 1, dtype="<f4")}),
    ("pieces", {"1": "\ud800"}), ("pieces", None)])
def test_an_invalid_round_is_left_out(path: str, value: Any) -> None:
    trace = read_changed(1, path, value)
    assert [entry.round.index for entry in trace.entries] == list(range(1, len(LINES) - 2))
    assert re.match(r"1 .*line 2 .", trace.end.note)


def test_token_texts_of_a_left_out_round_come_with_the_next() -> None:
    lines = json.loads(json.dumps(LINES))
    lines[1]["pieces"], lines[2]["pieces"] = {"1": "one", "2": "two"}, {"2": "zwei"}
    lines[1]["round"]["acceptance"]["bonus"] = -1
    lines.insert(3, {"round": 7, "pieces": None})
    lines.insert(3, ["nothing"])
    trace = loads(("\n".join(map(json.dumps, lines)) + "\n").encode())
    first = trace.entries[0]
    assert dict(first.pieces) == {1: "one", 2: "zwei"}
    assert (first.round.index, first.round.start) == (1, LINES[2]["round"]["start"])
    assert re.findall(r"-?\d+", trace.end.note)[:3] == ["3", "2", "-1"], "number of rounds, first line, its wrong value"
    assert loads(dumps(trace)).end == trace.end


def test_a_truncated_file_reports_left_out_rounds() -> None:
    rows = [json.dumps(line).encode() for line in LINES[:-1]]
    rows[1] = b"damaged"
    trace = loads(b"\n".join(rows) + b"\n")
    assert trace.end.reason == "cut" and trace.end.note.startswith("1 ")
    with pytest.raises(TraceError, match="1 round.* line 2 "):
        loads(b"\n".join(rows[:2]) + b"\n")
    with pytest.raises(TraceError, match="1 round.* line 2 "):
        loads(b"\n".join([*rows[:2], json.dumps(LINES[-1]).encode()]) + b"\n")


@pytest.mark.parametrize(("path", "value"), [
    ("reason", None), ("rounds", -1), ("seconds", NAN), ("dropped", "1"), ("more", 1)])
def test_an_end_is_checked(path: str, value: Any) -> None:
    with pytest.raises(TraceError, match=f"line {len(LINES)} "):
        read_changed(-1, f"end.{path}", value)


def test_fields_that_a_recorder_leaves_out_are_read_as_empty() -> None:
    header = loads(b"\n".join([b'{"canopy_trace":5,"header":{"engine":"e"}}', *(
        json.dumps(line).encode() for line in LINES[1:])]) + b"\n").header
    assert (header.prompt, header.drafters, header.rig, header.request.method) == ("", (), "e", "unknown")
    assert header.request.prompt_ids == () and header.budget is None


def test_nothing_comes_after_the_end_and_no_header_but_the_first() -> None:
    rows = [json.dumps(line).encode() for line in LINES]
    for lines in ([*rows, rows[1]], [*rows, rows[-1]], [rows[0], rows[0], *rows[1:]], rows[1:]):
        with pytest.raises(TraceError):
            loads(b"\n".join(lines) + b"\n")


def test_files_of_older_recorders_still_open() -> None:
    listed = ",[" * 100_000  # newer recorders leave out a prompt like this
    assert read_changed(0, "header.prompt", listed).header.prompt == listed
    assert read_changed(0, "header.turns", [["user", listed]]).header.turns == (("user", listed),)
    widest = read_changed(1, "round.alternatives", alternatives(64)).entries[0].round.alternatives
    assert widest is not None and widest.tokens.shape == (KEPT, 64)


def test_prompt_ids_may_be_an_encoded_array() -> None:
    packed = {"dtype": "<i8", "shape": [2], "data": "AQAAAAAAAAACAAAAAAAAAA=="}
    assert read_changed(0, "header.request.prompt_ids", packed).header.request.prompt_ids == (1, 2)
