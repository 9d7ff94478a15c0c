"""A run as it happened: a header, an entry per round, an end. As JSON lines it is a trace file.

A live engine yields the same three records as a recorded file does, so whoever reads them cannot tell the two
apart except by the header's ``recorded`` date. Arrays are written as base64 of their bytes with dtype and shape,
so a file reproduces every field of every ``Round`` bit for bit. No pickle: a stranger's file is only data.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from engine.errors import RequestError, TraceError
from engine.records import Acceptance, DraftTree, Lattice, Request, Round, Sampling, Trials, Verification
from engine.round_check import check_round
from engine.turns import Turn, turns_from

VERSION = 3  # 1 had no ``pace`` in its request, which was always fixed; 2 had no ``turns`` in its header
READABLE = (1, 2, 3)
GZIP_MAGIC = b"\x1f\x8b"
DTYPES = MappingProxyType({"Integers": "<i4", "Floats": "<f4"})  # by what ``records.py`` calls a field's type
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, RequestError)

Piece = str | tuple[int, ...]  # a token's text, or its bytes where they are not whole characters by themselves


@dataclass(frozen=True)
class Header:
    """What was run, on what, when. ``heads`` names the drafters in head order, ``pieces`` the prompt's tokens.

    ``recorded`` is an ISO date for a recording and empty for a live run; ``note`` is a sentence for the reader (what a
    recording teaches, or that the prompt lies outside what the rig was trained for); ``turns`` were before the prompt.
    """

    request: Request
    prompt: str
    rig: str
    heads: tuple[str, ...]
    hardware: str
    dtype: str
    context_limit: int
    pieces: Mapping[int, Piece]
    revisions: Mapping[str, str]
    title: str = ""
    note: str = ""
    recorded: str = ""
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A round, the text of the tokens that no earlier line has named, and the seconds since the run began."""

    round: Round
    pieces: Mapping[int, Piece]
    elapsed_seconds: float


@dataclass(frozen=True)
class End:
    """Why the text ended: ``stop`` token, ``length`` (max_tokens), ``context`` (no positions left), ``stopped``."""

    reason: str
    rounds: int
    seconds: float


Line = Header | Entry | End


@dataclass(frozen=True)
class Trace:
    """A whole run in memory."""

    header: Header
    entries: tuple[Entry, ...]
    end: End


def gather(lines: Iterable[Line]) -> Trace:
    """The lines of one finished run as a trace."""
    header, *rest = list(lines)
    if not isinstance(header, Header) or not rest or not isinstance(rest[-1], End):
        raise TraceError("A trace is a header, its rounds and an end; this run has not ended.")
    return Trace(header, tuple(line for line in rest if isinstance(line, Entry)), rest[-1])


def committed_ids(rounds: Iterable[Round]) -> list[int]:
    """The text's token ids, in order."""
    return [token for made in rounds for token in made.committed.tolist()]


def tau(rounds: Sequence[Round]) -> float:
    """τ: mean tokens committed per round, the root included (paper 001, section 9); 0 without a round."""
    return sum(len(made.acceptance.keep) for made in rounds) / len(rounds) if rounds else 0.0


def dump(trace: Trace, path: Path) -> None:
    """Write a trace file, gzipped when its name ends in .gz. The file appears whole or not at all."""
    data = dumps(trace)
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    partial = path.with_name(path.name + ".part")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise TraceError(f"The trace could not be written to {path.name}: {error.strerror}.") from error


def dumps(trace: Trace) -> bytes:
    """The bytes of an uncompressed trace file."""
    lines: tuple[Line, ...] = (trace.header, *trace.entries, trace.end)
    return "".join(json.dumps(encode_line(line), separators=(",", ":")) + "\n" for line in lines).encode()


def load(path: Path) -> Trace:
    """Read a trace file, gzipped or not. TraceError says what is wrong with it and where."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"The trace {path.name} cannot be read: {error.strerror}.") from error
    return loads(data, path.name)


def loads(data: bytes, name: str = "the trace") -> Trace:
    """A trace from the bytes of a file."""
    if data[:2] == GZIP_MAGIC:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise TraceError(f"{name} is a gzip file that is cut off or damaged; record or copy it again.") from error
    return gather(_decode_lines(data, name))


def _decode_lines(data: bytes, name: str) -> Iterator[Line]:
    rows = data.split(b"\n")
    if len(rows) < 2:
        raise TraceError(f"{name} is not a Canopy trace: it has no line that ends.")
    for number, row in enumerate(rows[:-1], start=1):
        try:
            line = json.loads(row)
            if number == 1:
                _check_version(line, name)
            yield decode_line(line)
        except UNREADABLE as error:
            raise TraceError(
                f"{name} is not a Canopy trace, or is damaged: line {number} cannot be read ({error}).") from error
    if rows[-1] or b'"end"' not in rows[-2]:
        raise TraceError(f"{name} is cut off after line {len(rows) - 1}; a whole trace closes with an end line.")


def _check_version(line: Any, name: str) -> None:
    version = line.get("canopy_trace") if isinstance(line, dict) else None
    if version not in READABLE:
        seen = f"its first line says version {version!r}" if version else "its first line is no trace header"
        allowed = " or ".join(map(str, READABLE))
        raise TraceError(f"{name} is not a trace that this Canopy reads: {seen}, and version {allowed} is allowed.")


def encode_line(line: Line) -> dict[str, Any]:
    """A line as plain JSON values."""
    if isinstance(line, End):
        return {"end": asdict(line)}
    pieces = {str(token): piece if isinstance(piece, str) else list(piece) for token, piece in line.pieces.items()}
    if isinstance(line, Entry):
        made = {**encode_record(line.round), "scores": list(line.round.scores)}
        return {"round": made, "pieces": pieces, "elapsed_seconds": line.elapsed_seconds}
    request = {**_plain(line.request), "sampling": asdict(line.request.sampling),
               "prompt_ids": list(line.request.prompt_ids), "stop_ids": sorted(line.request.stop_ids)}
    header = {**_plain(line), "request": request, "pieces": pieces, "revisions": dict(line.revisions)}
    return {"canopy_trace": VERSION, "header": header}


def _plain(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def decode_line(line: dict[str, Any]) -> Line:
    """A line from plain JSON values; ValueError, KeyError or TypeError where they do not fit."""
    if "end" in line:
        return End(**line["end"])
    body = line.get("header", line)
    pieces = {int(token): piece if isinstance(piece, str) else tuple(piece) for token, piece in body["pieces"].items()}
    if "round" in line:
        return Entry(_decode_round(line["round"]), pieces, float(line["elapsed_seconds"]))
    asked = body["request"]
    request = Request(**{**asked, "sampling": Sampling(**asked["sampling"]), "prompt_ids": tuple(asked["prompt_ids"]),
                         "stop_ids": frozenset(asked["stop_ids"])})
    return Header(**{**body, "request": request, "pieces": pieces, "heads": tuple(body["heads"]),
                     "turns": turns_from(body.get("turns"))})


def encode_record(record: Any) -> Any:
    """A record of arrays as JSON values: an array becomes {dtype, shape, data}, a tuple a list."""
    if isinstance(record, np.ndarray):
        little = record.astype(record.dtype.newbyteorder("<"), copy=False)
        data = base64.b64encode(np.ascontiguousarray(little).tobytes()).decode()
        return {"dtype": little.dtype.str, "shape": list(record.shape), "data": data}
    if isinstance(record, tuple | list):
        return [encode_record(item) for item in record]
    if isinstance(record, Mapping):
        return dict(record)
    if hasattr(record, "__dataclass_fields__"):
        return {name: encode_record(value) for name, value in _plain(record).items()}
    return record


def _array(value: dict[str, Any], dtype: str) -> Any:
    if value["dtype"] != dtype:
        raise ValueError(f"an array of dtype {value['dtype']!r}, where {dtype} is allowed")
    array = np.frombuffer(base64.b64decode(value["data"], validate=True), np.dtype(dtype))
    return array.reshape(value["shape"]).copy()


def _arrays(kind: Any, value: dict[str, Any]) -> Any:
    arrays = {field.name: _array(value[field.name], DTYPES[str(field.type)]) for field in fields(kind)}
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) != 1 or len(shapes.pop()) != (3 if kind is Lattice else 1):
        raise ValueError(f"a {kind.__name__} whose arrays do not fit each other")
    return kind(**arrays)


def _decode_round(value: dict[str, Any]) -> Round:
    acceptance = Acceptance(
        _array(value["acceptance"]["keep"], "<i4"), int(value["acceptance"]["bonus"]),
        _arrays(Trials, value["acceptance"]["trials"]) if value["acceptance"]["trials"] else None)
    made = Round(
        index=int(value["index"]), start=int(value["start"]),
        drafts=tuple(_arrays(Lattice, draft) for draft in value["drafts"]),
        candidates=tuple(_arrays(DraftTree, tree) for tree in value["candidates"]),
        tree=_arrays(DraftTree, value["tree"]), verification=_arrays(Verification, value["verification"]),
        acceptance=acceptance, seconds={stage: float(seconds) for stage, seconds in value["seconds"].items()})
    check_round(made)
    return made


def recorded(trace: Trace, title: str, note: str, date: str) -> Trace:
    """The trace as a recording: with a title, what it teaches, and its ISO date."""
    return replace(trace, header=replace(trace.header, title=title, note=note, recorded=date))
