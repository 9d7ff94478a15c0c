"""Reads a trace from a file: line by line, within limits, every value checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

from engine.errors import RequestError, TraceError
from engine.requests.turns import turns_from
from engine.trace import checks
from engine.trace.limits import LIMITS, LONGEST_NOTE, MOST_DRAFTERS, Limits
from engine.trace.lines import End, Entry, Header, Line, Trace, gather
from engine.trace.rounds import completed, decode_round
from engine.trace.stream import as_file, check_size, lines_of, opened
from engine.trace.written_names import written_name

READABLE = (1, 2, 3, 4)
OPTIONAL = 4  # from this version on, a recorder may leave out what it does not know
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, RequestError)
NEEDED = ("rig", "hardware", "dtype", "revisions")  # of a header, in every version
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
    reading, last = LineReader(name, limits), None
    for row in lines_of(file, limits, name):
        line = reading.line(row)
        if line is not None:
            last = line
            yield line
    if reading.count == 0:
        raise TraceError(f"{name} is not a Canopy trace, or is cut off in its first line; nothing of it can be shown.")
    if isinstance(last, Header):
        raise TraceError(f"{name} is cut off before its first round; nothing of it can be shown.")
    if isinstance(last, Entry):
        yield End("cut", last.round.index + 1, last.elapsed_seconds)


class LineReader:
    """Decodes a file's lines one after another, and adds up lines and token texts against the limits."""

    def __init__(self, name: str, limits: Limits = LIMITS) -> None:
        self._name, self._limits = name, limits
        self._pieces = 0
        self._ended = False
        self.count = 0

    def line(self, row: bytes) -> Line | None:
        """Decode the next line; None for a recorder's report of a refused round. TraceError where it cannot be read."""
        self.count += 1
        if self.count > self._limits.lines:
            raise TraceError(f"{self._name} has more than {self._limits.lines:,} lines, which is the most that is "
                             "read.")
        try:
            line = self._decoded(row)
            self._count(line)
        except UNREADABLE as error:
            raise self._refusal(_reason(error)) from error
        return line

    def _decoded(self, row: bytes) -> Line | None:
        if sum(map(row.count, (b",", b"[", b"{"))) > self._limits.line_values:
            raise ValueError(f"it has more than {self._limits.line_values:,} values")
        value = json.loads(row, parse_constant=_refuse_constant)
        if self.count == 1:
            _check_version(value, self._name)
        value = checks.named(value, "line")
        if ("header" in value) != (self.count == 1) or self._ended:
            raise ValueError("a header that is not first" if "header" in value else "it comes where none may")
        if "refused" in value and "round" not in value:
            return None
        return decode_line(value)

    def _count(self, line: Line | None) -> None:
        if isinstance(line, End):
            self._ended = True
        elif line is not None:
            self._pieces += len(line.pieces)
        if self._pieces > self._limits.pieces:
            raise ValueError(f"the text of more than {self._limits.pieces:,} tokens, which is the most that is read")

    def _refusal(self, reason: str) -> TraceError:
        return TraceError(f"{self._name} is not a Canopy trace, or is damaged: line {self.count} cannot be read "
                          f"({reason[:300]}).")


def _reason(error: Exception) -> str:
    if type(error) is RecursionError:
        return "it is nested too deeply"
    return f"it lacks {error}" if type(error) is KeyError else str(error)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name}, where a number is allowed")


def _check_version(line: Any, name: str) -> None:
    version = line.get("canopy_trace") if isinstance(line, dict) else None
    if type(version) is not int or version not in READABLE:
        seen = f"its first line says version {checks.seen(version)}" if version else "its first line is no trace header"
        allowed = " or ".join(map(str, READABLE))
        raise TraceError(f"{name} is not a trace that this Canopy reads: {seen}, and version {allowed} is allowed.")


def decode_line(line: Mapping[str, Any]) -> Line:
    """A line from plain JSON values; ValueError, KeyError, TypeError or RequestError where they do not fit."""
    if "end" in line:
        return _end(checks.named(line["end"], "end"))
    if "round" in line:
        return Entry(decode_round(checks.named(line["round"], "round")), _pieces(line["pieces"]),
                     checks.number(line["elapsed_seconds"], "elapsed_seconds"))
    return _header(checks.named(line["header"], "header"), line.get("canopy_trace", 0) >= OPTIONAL)


def _end(given: Mapping[str, Any]) -> End:
    checks.only(given, "end", END_FIELDS)
    dropped, refused = (checks.whole(given.get(name, 0), f"{name} rounds") for name in ("dropped", "refused"))
    return End(checks.text(given["reason"], "reason"), checks.whole(given["rounds"], "number of rounds"),
               checks.number(given["seconds"], "time of the run"), dropped, refused,
               checks.text(given.get("said", ""), "engine's own figures", LONGEST_NOTE))


def _header(given: Mapping[str, Any], bare: bool) -> Header:
    if bare:
        given = completed({**given, "request": checks.named(given.get("request", {}), "request")})
    checks.only(given, "header", HEADER_FIELDS)
    notes = {name: checks.text(given.get(name, ""), name, LONGEST_NOTE)
             for name in ("rig", "hardware", "dtype", "title", "note", "recorded", "engine")}
    if lacking := [name for name in NEEDED if name not in given]:
        raise KeyError(lacking[0])
    return Header(
        request=checks.request(given["request"], bare), prompt=checks.prompt(given["prompt"]),
        drafters=checks.words(given["heads"], "heads", MOST_DRAFTERS), pieces=_pieces(given["pieces"]),
        context_limit=checks.whole(given["context_limit"], "context_limit"),
        revisions=checks.revisions(given["revisions"]), every=checks.whole(given.get("every", 1), "every", 1),
        turns=turns_of(given.get("turns")), **notes)


def _pieces(value: Any) -> Any:
    return checks.pieces(value, LIMITS.pieces)


def turns_of(value: Any) -> Any:
    """The conversation before the prompt, in whole characters."""
    turns = turns_from(value)
    for _, said in turns:
        checks.prompt(said)
    return turns
