"""Reads a trace from a file: line by line, within limits, every value checked. An unsound round is left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, BinaryIO

from engine.errors import RequestError, TraceError
from engine.recorder import HEADER, LONGEST_NOTE, check_line, drafters, known, number, reason_of, seen, text, whole
from engine.requests.prompts import turns_from
from engine.trace import checks
from engine.trace.limits import LIMITS, Limits
from engine.trace.lines import End, Entry, Header, Line, Piece, Trace, gather
from engine.trace.rounds import completed, decode_round
from engine.trace.stream import as_file, check_size, lines_of, opened
from engine.trace.written_names import written_name

READABLE = (1, 2, 3, 4)
OPTIONAL = 4  # from this version on, a recorder may leave out what it does not know
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, RequestError)
NEEDED = ("request", "prompt", "rig", "heads", "hardware", "dtype", "context_limit", "pieces", "revisions")
HEADER_FIELDS = frozenset(written_name(field.name) for field in fields(Header))
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
            made, seconds = decode_round(checks.named(value["round"], "round")), value["elapsed_seconds"]
            entry = Entry(made, self._carried, number(seconds, "elapsed_seconds"))
        except UNREADABLE as error:
            self._wrong += 1
            self._reason = self._reason or f"line {self.count} cannot be read ({reason_of(error)})"
            return None
        self._carried = {}
        return entry


def _check_version(line: Mapping[str, Any], name: str) -> None:
    version = line.get("canopy_trace")
    if type(version) is not int or version not in READABLE:
        said = f"its first line says version {seen(version)}" if version else "its first line is no trace header"
        allowed = " or ".join(map(str, READABLE))
        raise TraceError(f"{name} is not a trace that this Canopy reads: {said}, and version {allowed} is allowed.")


def _end(given: Mapping[str, Any]) -> End:
    known(given, END_FIELDS, "the end")
    dropped, refused = (whole(given.get(name, 0), f"{name} rounds") for name in ("dropped", "refused"))
    return End(text(given["reason"], "reason"), whole(given["rounds"], "number of rounds"),
               number(given["seconds"], "time of the run"), dropped, refused,
               text(given.get("said", ""), "engine's own figures", LONGEST_NOTE),
               *(whole(given.get(name, 0), f"{name} tokens") for name in ("drafted", "accepted")))


def _header(given: Mapping[str, Any], bare: bool) -> Header:
    if bare:
        given = completed({**given, "request": checks.named(given.get("request", {}), "request")})
    known(given, HEADER_FIELDS, "the header")
    if lacking := [name for name in NEEDED if name not in given]:
        raise KeyError(lacking[0])
    return Header(
        request=checks.request(given["request"], bare), drafters=tuple(drafters(given["heads"], "heads")),
        pieces=checks.pieces(given["pieces"]), revisions=checks.revisions(given["revisions"]),
        recorded=text(given.get("recorded", ""), "recorded", LONGEST_NOTE), turns=turns_of(given.get("turns")),
        chunked=checks.truth(given.get("chunked", False), "chunked"),
        **{name: check(given[name], name) for name, check in HEADER.items() if name in given})


def turns_of(value: Any) -> Any:
    """The conversation before the prompt, in whole characters."""
    turns = turns_from(value)
    for _, said in turns:
        HEADER["prompt"](said, "turn")
    return turns
