"""Reads a trace from a file, or from one that is still being written: line by line, within limits, every value checked.
An unsound round is left out.

A round needs tokens, parents, keep and bonus (contract 7). What an engine did not record is marked in the arrays, node
by node: NaN for an unknown float, -1 for an unknown token. Of the target's choices, those that the walk followed are
known in any case.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from engine.errors import RequestError, TraceError
from engine.machine.files import open_file
from engine.recorder import (
    HEADER,
    INTEGERS,
    LATTICE,
    LONGEST_NOTE,
    TREE,
    TRIALS,
    VERIFICATION,
    check_line,
    check_round,
    drafters,
    known,
    number,
    reason_of,
    seen,
    text,
    whole,
)
from engine.records import Acceptance, DraftTree, Integers, Lattice, Round, Trials, Verification
from engine.requests.prompts import turns_from
from engine.trace import checks, stream
from engine.trace.checks import LIMITS, Limits, listed, named, packed_array
from engine.trace.lines import End, Entry, Header, Line, Piece, Trace, gather
from engine.trace.stream import as_file, check_size, lines_of, opened

NOT_RECORDED = -1  # in place of a token id


def completed(header: Mapping[str, Any]) -> dict[str, Any]:
    """A header with defaults for what a recorder may leave out: empty text, and 0 for an unknown number."""
    unknown = {"method": "unknown", "prompt_ids": [], "budget": 0, "max_tokens": 0, "sampling": {}, "stop_ids": []}
    blank = {"prompt": "", "drafters": [], "hardware": "", "dtype": "", "context_limit": 0, "pieces": {},
             "revisions": {}}
    return {**blank, "rig": header.get("engine", ""), **header, "request": {**unknown, **header.get("request", {})}}


def decode_round(value: Mapping[str, Any]) -> Round:
    """The round of a line; ValueError, LookupError or TypeError where it is not sound."""
    line = _unpacked(value)
    check_round(line)
    kept, trials = line["acceptance"], line["acceptance"].get("trials")
    acceptance = Acceptance(kept["keep"], kept["bonus"], None if trials is None else Trials(**trials))
    tree = _tree(line["tree"])
    unknown = {name: np.full(len(tree), np.nan, np.float32) for name in VERIFICATION if name != "choice"}
    verification = Verification(**{"choice": _walked(tree, acceptance), **unknown, **line["verification"]})
    return Round(
        line["index"], line["start"], tuple(Lattice(**draft) for draft in line["drafts"]),
        tuple(map(_tree, line["candidates"])), tree, verification, acceptance,
        {stage: float(seconds) for stage, seconds in line["seconds"].items()})


def _unpacked(value: Mapping[str, Any]) -> dict[str, Any]:
    """A round as its line has it, with its arrays unpacked."""
    kept = named(value["acceptance"], "acceptance")
    acceptance = {"keep": packed_array(kept["keep"], (INTEGERS,), "keep"), "bonus": kept["bonus"]}
    if kept.get("trials") is not None:
        acceptance["trials"] = _arrays(kept["trials"], TRIALS, "trials")
    return {
        "index": value["index"], "start": value["start"], "tree": _arrays(value["tree"], TREE, "tree"),
        "verification": _arrays(value.get("verification", {}), VERIFICATION, "verification"), "acceptance": acceptance,
        "drafts": [_arrays(draft, LATTICE, "lattice") for draft in listed(value.get("drafts", []), "drafts")],
        "candidates": [_arrays(tree, TREE, "tree") for tree in listed(value.get("candidates", []), "candidates")],
        "seconds": named(value.get("seconds", {}), "seconds")}


def _of_today(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields under the names that they have since version 5."""
    return {"drafters" if name == "heads" else name: value for name, value in given.items()}


def _arrays(value: Any, kinds: Mapping[str, str], what: str) -> dict[str, Any]:
    """Those of the named arrays that there are."""
    given = _of_today(named(value, what))
    return {name: packed_array(given[name], (kind,), name) for name, kind in kinds.items() if name in given}


def _tree(arrays: Mapping[str, Any]) -> DraftTree:
    """The tree of a line; where it does not say which drafter proposed a node, the first did."""
    shape = arrays["tokens"].shape
    drafters, unknown = np.ones(shape, np.int32), np.full(shape, np.nan, np.float32)
    drafters[0] = unknown[0] = 0
    return DraftTree(arrays["tokens"], arrays["parents"], arrays.get("logprobs", unknown),
                     arrays.get("drafters", drafters))


def _walked(tree: DraftTree, acceptance: Acceptance) -> Integers:
    """The choices that the walk followed, (n,) int32."""
    choice = np.full(len(tree), NOT_RECORDED, np.int32)
    choice[acceptance.keep[:-1]] = tree.tokens[acceptance.keep[1:]]
    choice[acceptance.keep[-1]] = acceptance.bonus
    return choice


READABLE = (1, 2, 3, 4, 5)
OPTIONAL = 4  # from this version on, a recorder may leave out what it does not know
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, RequestError)
NEEDED = ("request", "prompt", "rig", "drafters", "hardware", "dtype", "context_limit", "pieces", "revisions")
HEADER_FIELDS = frozenset(field.name for field in fields(Header))
END_FIELDS = frozenset(field.name for field in fields(End))


def load(path: Path, limits: Limits = LIMITS) -> Trace:
    """Read a trace file, gzipped or not. TraceError says what is wrong with it and where."""
    with opened(path, limits) as file:
        return gather(_lines(file, path.name, limits))


def loads(data: bytes, name: str = "the trace", limits: Limits = LIMITS) -> Trace:
    """A trace from the bytes of a file."""
    check_size(len(data), limits, name)
    return gather(_lines(as_file(data), name, limits))


def _lines(file: BinaryIO, name: str, limits: Limits) -> Iterator[Line]:
    reading, last, shown = LineReader(name, limits), None, False
    for row in lines_of(file, limits, name):
        line = reading.line(row)
        if line is not None:
            last, shown = line, shown or isinstance(line, Entry)
            yield line
    if reading.count == 0:
        raise TraceError(f"{name} is not a Canopy trace, or is cut off in its first line; nothing of it can be shown.")
    if reading.left_out and not shown:
        raise TraceError(f"{name} is not a Canopy trace, or is damaged: {reading.left_out[:-1]}.")
    if isinstance(last, Header):
        raise TraceError(f"{name} is cut off before its first round; nothing of it can be shown.")
    if isinstance(last, Entry):
        yield End("cut", last.round.index + 1, last.elapsed_seconds, said=reading.left_out)


class LineReader:
    """Decodes a file's lines one after another, and adds up lines and token texts against the limits.

    A line behind the first that is no sound round is left out. What else it names is kept: its tokens' texts come with
    the next round, and rounds keep their numbers and positions, so that a gap can be seen.
    """

    def __init__(self, name: str, limits: Limits = LIMITS) -> None:
        self._name, self._limits = name, limits
        self._pieces = self._wrong = 0
        self._carried: dict[int, Piece] = {}
        self._reason = ""
        self._ended = False
        self.count = 0

    @property
    def left_out(self) -> str:
        """How many lines were left out, and why the first of them, in a sentence; empty where there is none."""
        if not self._wrong:
            return ""
        many = "1 round is" if self._wrong == 1 else f"{self._wrong:,} rounds are"
        return f"{many} left out, because {self._reason}."

    def line(self, row: bytes) -> Line | None:
        """Decode the next line; None for one that is left out, and for a recorder's report of a refused round.
        TraceError where the file cannot be read any further."""
        self.count += 1
        if self.count > self._limits.lines:
            raise TraceError(f"{self._name} has more than {self._limits.lines:,} lines, which is the most that is "
                             "read.")
        try:
            check_line(row, self._limits.line_bytes, self._limits.line_values)
            line = self._decoded(row)
        except UNREADABLE as error:
            raise TraceError(f"{self._name} is not a Canopy trace, or is damaged: line {self.count} cannot be read "
                             f"({reason_of(error)}).") from error
        if self._pieces > self._limits.pieces:
            raise TraceError(f"{self._name} has the text of more than {self._limits.pieces:,} tokens, which is the "
                             "most that is read.")
        return line

    def _decoded(self, row: bytes) -> Line | None:
        value = self._value(row)
        if self.count == 1:
            _check_version(value, self._name)
        if ("header" in value) != (self.count == 1) or self._ended:
            raise ValueError("a header that is not first" if "header" in value else "it comes where none may")
        if "end" in value:
            self._ended = True
            end = _end(checks.named(value["end"], "end"))
            return replace(end, said=f"{self.left_out} {end.said}".strip()[:LONGEST_NOTE])
        if "refused" in value and "round" not in value:
            return None
        return self._begun(value) if self.count == 1 else self._round(value)

    def _value(self, row: bytes) -> Mapping[str, Any]:
        """The line's object; of a line that has none, an empty one."""
        try:
            return checks.named(json.loads(row), "line")
        except (ValueError, RecursionError):
            if self.count == 1:
                raise
            return {}

    def _begun(self, value: Mapping[str, Any]) -> Header:
        header = _header(checks.named(value["header"], "header"), value["canopy_trace"] >= OPTIONAL)
        self._pieces += len(header.pieces)
        return header

    def _round(self, value: Mapping[str, Any]) -> Entry | None:
        try:
            pieces = checks.pieces(value["pieces"])
            self._pieces += len(pieces)
            self._carried |= pieces
            round_, seconds = decode_round(checks.named(value["round"], "round")), value["elapsed_seconds"]
            entry = Entry(round_, self._carried, number(seconds, "elapsed_seconds"))
        except UNREADABLE as error:
            self._wrong += 1
            self._reason = self._reason or f"line {self.count} cannot be read ({reason_of(error)})"
            return None
        self._carried = {}
        return entry


def _check_version(line: Mapping[str, Any], name: str) -> None:
    version = line.get("canopy_trace")
    if type(version) is not int or version not in READABLE:
        problem = f"its first line says version {seen(version)}" if version else "its first line is no trace header"
        allowed = " or ".join(map(str, READABLE))
        raise TraceError(f"{name} is not a trace that this Canopy reads: {problem}, and version {allowed} is allowed.")


def _end(given: Mapping[str, Any]) -> End:
    known(given, END_FIELDS, "the end")
    dropped, refused = (whole(given.get(name, 0), f"{name} rounds") for name in ("dropped", "refused"))
    return End(text(given["reason"], "reason"), whole(given["rounds"], "number of rounds"),
               number(given["seconds"], "time of the run"), dropped, refused,
               text(given.get("said", ""), "engine's own figures", LONGEST_NOTE),
               *(whole(given.get(name, 0), f"{name} tokens") for name in ("drafted", "accepted")))


def _header(given: Mapping[str, Any], bare: bool) -> Header:
    given = _of_today(given)
    if bare:
        given = completed({**given, "request": checks.named(given.get("request", {}), "request")})
    known(given, HEADER_FIELDS, "the header")
    if lacking := [name for name in NEEDED if name not in given]:
        raise KeyError(lacking[0])
    return Header(
        request=checks.request(given["request"], bare), drafters=tuple(drafters(given["drafters"], "drafters")),
        pieces=checks.pieces(given["pieces"]), revisions=checks.revisions(given["revisions"]),
        recorded=text(given.get("recorded", ""), "recorded", LONGEST_NOTE), turns=turns_of(given.get("turns")),
        chunked=checks.truth(given.get("chunked", False), "chunked"),
        in_turns=checks.truth(given.get("in_turns", False), "in_turns"),
        **{name: check(given[name], name) for name, check in HEADER.items() if name in given})


def turns_of(value: Any) -> Any:
    """The conversation before the prompt, in whole characters."""
    turns = turns_from(value)
    for _, text_ in turns:
        HEADER["prompt"](text_, "turn")
    return turns


class TraceTail:
    """Yields the lines of a growing file once they are complete; a half-written line waits for its other half."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reading, self._rows = LineReader(path.name), stream.FileLines(path.name, LIMITS)
        self._file: BinaryIO | None = None
        self._number = self._read = 0  # the file's own number; bytes

    def lines(self) -> list[Line]:
        """The lines completed since the last call, at most one step's worth, so that it returns soon. TraceError where
        the file cannot be read, is not a trace, or is too large."""
        try:
            self._file = self._file or self._opened()
            fresh = b"" if self._rows.waiting else self._file.read(stream.STEP_BYTES)
        except OSError as error:
            raise TraceError(f"The trace {self.path.name} cannot be read: {error.strerror}.") from error
        self._read += len(fresh)
        return [line for line in map(self._reading.line, self._rows.of(fresh)) if line is not None]

    def replaced(self) -> bool:
        """Whether another file has taken its place, or it has been begun anew."""
        try:
            there = self.path.stat()
        except OSError:
            return False
        return self._file is not None and (there.st_ino != self._number or there.st_size < self._read)

    def close(self) -> None:
        """Close the file; nothing more is read."""
        if self._file is not None:
            self._file.close()

    def _opened(self) -> BinaryIO:
        file = open_file(self.path)
        self._number = os.fstat(file.fileno()).st_ino
        return file
