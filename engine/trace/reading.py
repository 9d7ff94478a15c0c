"""Reads a trace from a file, complete or still being written: line by line, within limits, every value checked. An
invalid round is left out.

A round needs tokens, parents, keep and bonus. What an engine did not record is NaN or token -1 in the arrays. The
target's choices along the walk are always known.
"""

import base64
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import RequestError, TraceError
from engine.recorder import (
    HEADER,
    INTEGERS,
    LATTICE,
    MAX_NOTE_LENGTH,
    MAX_PIECES,
    MAX_ROUNDS,
    MAX_TEXT_LENGTH,
    REQUEST,
    TREE,
    TRIALS,
    VERIFICATION,
    check_drafters,
    check_int,
    check_line,
    check_names,
    check_number,
    check_object,
    check_piece,
    check_round,
    check_text,
    quoted,
    reason_of,
)
from engine.records import (
    Acceptance,
    Alternatives,
    DraftTree,
    Integers,
    Lattice,
    Request,
    Round,
    Sampling,
    Trials,
    Verification,
)
from engine.requests.prompts import turns_from
from engine.trace.lines import End, Entry, Header, Line, MeasuredBudget, Piece, Trace, estimate_bytes, trace_from_lines
from engine.trace.stream import FileLines, check_size, open_trace

# Version 1 had no ``pace`` (always fixed), 2 no ``turns``; from 4 on unknown values may be left out; before 5 drafters
# were called heads; some files of 5 have ``texts``. A field that is missing was not recorded.
READABLE = (1, 2, 3, 4, 5)
LEGACY_NAMES = {"heads": "drafters", "said": "note", "in_turns": "interleaved"}  # of former versions
NOT_RECORDED = -1  # in place of a token id
ID_DTYPES = ("<i4", "<i8")  # of token ids
MAX_REVISIONS = 256
MAX_CURVE_BUDGETS = 64
MAX_LINES = MAX_ROUNDS + 2**8  # rounds, and whatever else there is
MAX_HELD_BYTES = 2**29  # memory; twice what a file may unpack to
MAX_ALTERNATIVES = 64  # per kept row
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, RequestError)


def load(path: Path) -> Trace:
    """Read a trace file, gzipped or not. TraceError names the line and the field that is wrong."""
    with open_trace(path) as file:
        return trace_from_lines(_lines(FileLines(file, path.name), path.name))


def loads(data: bytes, name: str = "the trace") -> Trace:
    """Return a trace from the bytes of a file."""
    check_size(len(data), name)
    return trace_from_lines(_lines(FileLines(BytesIO(data), name), name))


def _lines(rows: FileLines, name: str) -> Iterator[Line]:
    reader, last, shown = LineReader(name), None, False
    while not rows.ended:
        for line in map(reader.line, rows.step()):
            if line is not None:
                last, shown = line, shown or isinstance(line, Entry)
                yield line
    if reader.count == 0:
        raise TraceError(f"{name} is not a Canopy trace, or is cut off in its first line; nothing of it can be shown.")
    if reader.left_out and not shown:
        raise TraceError(f"{name} is not a Canopy trace, or is damaged: {reader.left_out[:-1]}.")
    if isinstance(last, Header):
        raise TraceError(f"{name} is cut off before its first round; nothing of it can be shown.")
    if isinstance(last, Entry):
        yield End("cut", last.round.index + 1, last.elapsed_seconds, note=reader.left_out)


class TraceTail:
    """Yields the lines of a growing file once they are complete; a half-written line waits for its other half."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reading = LineReader(path.name)
        self._rows: FileLines | None = None
        self._number = 0  # the file's own

    def lines(self) -> list[Line]:
        """Return the lines completed since the last call, one step's worth at most. TraceError if the file cannot be
        read, is not a trace, or is too large."""
        if self._rows is None:
            file = open_trace(self.path)
            self._number, self._rows = os.fstat(file.fileno()).st_ino, FileLines(file, self.path.name)
        return [line for line in map(self._reading.line, self._rows.step()) if line is not None]

    def replaced(self) -> bool:
        """Return whether the file was replaced by another one, or truncated."""
        try:
            status = self.path.stat()
        except OSError:
            return False
        return self._rows is not None and (status.st_ino != self._number or status.st_size < self._rows.read_bytes)

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()


class LineReader:
    """Decodes a file's lines one after another, and adds up lines and token texts against the limits.

    An invalid line after the first is left out. The texts of its tokens are kept and come with the next round, and
    rounds keep their numbers and positions, so that a gap can be seen.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._pieces = self._wrong = self._held = 0
        self._carried: dict[int, Piece] = {}
        self._reason = ""
        self._ended = False
        self.count = 0

    @property
    def left_out(self) -> str:
        """How many lines were left out, and why the first of them, in a sentence; empty if there is none."""
        if not self._wrong:
            return ""
        many = "1 round is" if self._wrong == 1 else f"{self._wrong:,} rounds are"
        return f"{many} left out, because {self._reason}."

    def line(self, row: bytes) -> Line | None:
        """Decode the next line; None for one that is left out, and for a recorder's report of a refused round.
        TraceError if the file cannot be read any further."""
        self.count += 1
        if self.count > MAX_LINES:
            raise TraceError(f"{self._name} has more than {MAX_LINES:,} lines, which is the most that is read.")
        try:
            check_line(row)
            line = self._first(row) if self.count == 1 else self._later(row)
        except UNREADABLE as error:
            raise TraceError(f"{self._name} is not a Canopy trace, or is damaged: line {self.count} cannot be read "
                             f"({reason_of(error)}).") from error
        if self._pieces > MAX_PIECES:
            raise TraceError(f"{self._name} has the text of more than {MAX_PIECES:,} tokens; no more are read.")
        if line is not None:
            self._held += estimate_bytes(line)
        if self._held > MAX_HELD_BYTES:
            raise TraceError(f"{self._name} takes more than {MAX_HELD_BYTES:,} bytes of memory; no more are read.")
        return line

    def _first(self, row: bytes) -> Header:
        value = check_object(json.loads(row), "line")
        version = value.get("canopy_trace")
        if type(version) is not int or version not in READABLE:
            problem = f"says version {quoted(version)}" if version else "is no trace header"
            raise TraceError(f"{self._name} is not a trace that this Canopy reads: its first line {problem}, and "
                             f"version {' or '.join(map(str, READABLE))} is allowed.")
        header = read_header(check_object(value["header"], "header"))
        self._pieces += len(header.pieces)
        return header

    def _later(self, row: bytes) -> Line | None:
        try:
            value = check_object(json.loads(row), "line")
        except (ValueError, RecursionError):
            value = {}  # a line that is no object is no sound round
        if "header" in value or self._ended:
            raise ValueError("a header that is not first" if "header" in value else "it comes where none may")
        if "end" in value:
            self._ended = True
            end = read_end(check_object(value["end"], "end"))
            return replace(end, note=f"{self.left_out} {end.note}".strip()[:MAX_NOTE_LENGTH])
        return None if "refused" in value and "round" not in value else self._entry(value)

    def _entry(self, value: Mapping[str, Any]) -> Entry | None:
        try:
            pieces, texts = read_pieces(value["pieces"]), read_pieces(value.get("texts", {}), "texts")
            self._pieces += len(pieces) + len(texts)
            self._carried |= pieces
            round_ = decode_round(check_object(value["round"], "round"))
            entry = Entry(round_, self._carried, check_number(value["elapsed_seconds"], "elapsed_seconds"), texts=texts)
        except UNREADABLE as error:
            self._wrong += 1
            self._reason = self._reason or f"line {self.count} cannot be read ({reason_of(error)})"
            return None
        self._carried = {}
        return entry


# From JSON values to records: each function returns the value in its type, or raises one of ``UNREADABLE`` with the
# reason. ``engine/recorder.py`` has the checks that writers share; here are those that only a reader needs.


def read_header(value: Mapping[str, Any]) -> Header:
    """Read a header; what a recorder may leave out is empty text, or 0."""
    blank = {"request": {}, "prompt": "", "drafters": [], "hardware": "", "dtype": "", "context_limit": 0, "pieces": {},
             "revisions": {}, "rig": value.get("engine", "")}
    fields = {**blank, **_current_names(value)}
    check_names(fields, HEADER_FIELDS, "the header")
    return Header(**{name: HEADER_FIELDS[name](part, name) for name, part in fields.items()})


def read_end(value: Mapping[str, Any]) -> End:
    """Read a run's last line."""
    value = _current_names(value)
    check_names(value, END_FIELDS, "the end")
    return End(**{name: check(value[name], name) for name, check in END_FIELDS.items()
                  if name in value or name in ("reason", "rounds", "seconds")})


def decode_round(value: Mapping[str, Any]) -> Round:
    """Read a round's line."""
    fields = check_object(value["acceptance"], "acceptance")
    acceptance = {"keep": packed_array(fields["keep"], "keep", INTEGERS), "bonus": fields["bonus"]}
    if fields.get("trials") is not None:
        acceptance["trials"] = _arrays(fields["trials"], TRIALS, "trials")
    line = {
        "index": value["index"], "start": value["start"], "tree": _arrays(value["tree"], TREE, "tree"),
        "verification": _arrays(value.get("verification", {}), VERIFICATION, "verification"), "acceptance": acceptance,
        "drafts": [_arrays(draft, LATTICE, "lattice") for draft in check_list(value.get("drafts", []), "drafts")],
        "candidates": [_arrays(tree, TREE, "tree") for tree in check_list(value.get("candidates", []), "candidates")],
        "seconds": check_object(value.get("seconds", {}), "seconds")}
    check_round(line)
    trials = acceptance.get("trials")
    accepted = Acceptance(acceptance["keep"], fields["bonus"], None if trials is None else Trials(**trials))
    tree = _tree(line["tree"])
    unknown = {name: np.full(len(tree), np.nan, np.float32) for name in VERIFICATION if name != "choice"}
    verification = Verification(**{"choice": _followed_choices(tree, accepted), **unknown, **line["verification"]})
    return Round(
        line["index"], line["start"], tuple(Lattice(**draft) for draft in line["drafts"]),
        tuple(map(_tree, line["candidates"])), tree, verification, accepted,
        {stage: float(seconds) for stage, seconds in line["seconds"].items()},
        _alternatives(value["alternatives"], len(accepted.keep)) if "alternatives" in value else None)


def _alternatives(value: Any, kept: int) -> Alternatives:
    arrays = _arrays(value, {"tokens": INTEGERS, "logprobs": "<f4"}, "alternatives")
    shapes = {array.shape for array in arrays.values()}
    shape: tuple[int, ...] = max(shapes, default=())
    if len(arrays) < 2 or len(shapes) > 1 or len(shape) != 2 or shape[0] != kept or shape[1] > MAX_ALTERNATIVES:
        raise ValueError(f"the alternatives are {sorted(shapes)}; two of ({kept}, k ≤ {MAX_ALTERNATIVES}) are allowed")
    if (arrays["tokens"] < 0).any() or (arrays["logprobs"] > 1).any():  # 0, and what rounding adds to it
        raise ValueError("an alternative has a token below 0 or a log probability above 0")
    return Alternatives(**arrays)


def _current_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {LEGACY_NAMES.get(name, name): value for name, value in fields.items()}


def _arrays(value: Any, kinds: Mapping[str, str], what: str) -> dict[str, Any]:
    fields = _current_names(check_object(value, what))
    return {name: packed_array(fields[name], name, kind) for name, kind in kinds.items() if name in fields}


def _tree(arrays: Mapping[str, Any]) -> DraftTree:
    """Return the tree of a line; if it does not say which drafter proposed a node, the first did."""
    shape = arrays["tokens"].shape
    first, unknown = np.ones(shape, np.int32), np.full(shape, np.nan, np.float32)
    first[0] = unknown[0] = 0
    return DraftTree(arrays["tokens"], arrays["parents"], arrays.get("logprobs", unknown),
                     arrays.get("drafters", first))


def _followed_choices(tree: DraftTree, acceptance: Acceptance) -> Integers:
    """Return the choices that the walk followed, (n,) int32."""
    choice = np.full(len(tree), NOT_RECORDED, np.int32)
    choice[acceptance.keep[:-1]] = tree.tokens[acceptance.keep[1:]]
    choice[acceptance.keep[-1]] = acceptance.bonus
    return choice


def check_list(value: Any, name: str) -> list[Any]:
    """Raise ValueError if the value is no list."""
    if not isinstance(value, list):
        raise ValueError(f"the {name} is {quoted(value)}; a list is allowed")
    return value


def check_bool(value: Any, name: str) -> bool:
    """Raise ValueError if the value is neither true nor false."""
    if type(value) is not bool:
        raise ValueError(f"{name} is {quoted(value)}; true or false is allowed")
    return value


def packed_array(value: Any, name: str, *dtypes: str) -> Any:
    """Return a new array from its {dtype, shape, data}, of one of these dtypes."""
    value = check_object(value, name)
    dtype, data = value["dtype"], value["data"]
    if dtype not in dtypes:
        raise ValueError(f"an array of dtype {quoted(dtype)}; {' or '.join(dtypes)} is allowed")
    shape = tuple(check_int(side, f"{name}'s size") for side in check_list(value["shape"], f"{name}'s shape")[:4])
    if len(shape) > 3:
        raise ValueError(f"{name} has more than 3 dimensions")
    if not isinstance(data, str) or not data.isascii():
        raise ValueError(f"the data of {name} are {quoted(data)}; base64 is allowed")
    array = np.frombuffer(base64.b64decode(data, validate=True), np.dtype(dtype))
    if math.prod(shape) != array.size:
        raise ValueError(f"{name} has {array.size} numbers, and its shape is {shape}")
    return array.reshape(shape).copy()


def read_pieces(value: Any, name: str = "pieces") -> dict[int, Piece]:
    """Read tokens' texts by their ids, or by their positions."""
    texts = check_object(value, name)
    if len(texts) > MAX_PIECES:
        raise ValueError(f"the text of {len(texts):,} tokens; {MAX_PIECES:,} are allowed")
    pieces: dict[int, Piece] = {}
    for token, part in texts.items():
        if not (token.isascii() and token.isdigit() and len(token) <= 10):
            raise ValueError(f"a piece of the token {quoted(token)}; an id is allowed")
        shown = check_piece(part)
        pieces[check_int(int(token), "token of a piece")] = shown if isinstance(shown, str) else tuple(shown)
    return pieces


def read_request(value: Any, name: str) -> Request:
    """Read a request. The method may have any name, because rounds are shown by their contents."""
    default = Request(())
    fields = {"method": "unknown", "prompt_ids": [], "budget": 0, "max_tokens": 0, "sampling": {}, "stop_ids": [],
             "split": default.split, "pace": default.pace, **check_object(value, name)}
    check_names(fields, REQUEST_FIELDS, "the request")
    for ids in ("prompt_ids", "stop_ids"):
        fields[ids] = (packed_array(fields[ids], ids, *ID_DTYPES) if isinstance(fields[ids], dict)
                      else check_list(fields[ids], ids))
    checked = {part: check(fields[part], part) for part, check in REQUEST_FIELDS.items()}
    return Request(**{**checked, "prompt_ids": tuple(checked["prompt_ids"].tolist()),
                      "stop_ids": frozenset(checked["stop_ids"].tolist()), "sampling": Sampling(**checked["sampling"])})


def read_revisions(value: Any, name: str) -> dict[str, str]:
    """Read versions by the name of what they belong to."""
    revisions = check_object(value, name)
    if len(revisions) > MAX_REVISIONS:
        raise ValueError(f"{len(revisions):,} revisions; {MAX_REVISIONS} are allowed")
    return {check_note(part, "name of a revision"): check_note(version, "revision")
            for part, version in revisions.items()}


def read_curve(value: Any, name: str) -> tuple[MeasuredBudget, ...]:
    """Read the measured budgets of a rig."""
    if len(check_list(value, name)) > MAX_CURVE_BUDGETS:
        raise ValueError(f"the {name} has {len(value):,} budgets; {MAX_CURVE_BUDGETS} are allowed")
    return tuple(MeasuredBudget(**{part: check(point[part], part) for part, check in CURVE_FIELDS.items()})
                 for point in value)


def read_turns(value: Any, name: str) -> Any:
    """Read the conversation before the prompt, in whole characters."""
    turns = turns_from(value)
    for _, words in turns:
        check_prompt(words, name)
    return turns


Check = Callable[[Any, str], Any]
check_note = partial(check_text, max_length=MAX_NOTE_LENGTH)
check_prompt = partial(check_text, max_length=MAX_TEXT_LENGTH)  # older recorders did not count commas and brackets
REQUEST_FIELDS: Mapping[str, Check] = {**REQUEST, "split": check_text, "pace": check_text}
CURVE_FIELDS: Mapping[str, Check] = {
    "budget": check_int, "tau": check_number, "ratio": check_number, "low": check_number, "high": check_number}
HEADER_FIELDS: Mapping[str, Check] = {
    **HEADER, "prompt": check_prompt, "request": read_request, **dict.fromkeys(
        ("drafters", "drafter_kinds"), lambda value, name: tuple(check_drafters(value, name))),
    "pieces": read_pieces, "revisions": read_revisions, "recorded": check_note, "turns": read_turns,
    "chunked": check_bool, "interleaved": check_bool, "recurrent_layers": check_int, "thinking": check_text,
    "forced": check_int, "outside": check_bool, "curve": read_curve}
END_FIELDS: Mapping[str, Check] = {
    "reason": check_text, "rounds": check_int, "seconds": check_number, "dropped": check_int, "refused": check_int,
    "note": check_note, "drafted": check_int, "accepted": check_int, "prefill_seconds": check_number,
    "cached": check_int, "texts": read_pieces}
