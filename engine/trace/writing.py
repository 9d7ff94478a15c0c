"""Writes a trace to a file."""

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import FileError, TraceError
from engine.machine.files import replace_file
from engine.recorder import VERSION
from engine.trace.lines import Entry, Header, Line, Trace


def dump(trace: Trace, path: Path) -> None:
    """Write a trace file, gzipped if its name ends in .gz. The file is written completely or not at all."""
    data = dumps(trace)
    try:
        replace_file(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    except FileError as error:
        raise TraceError(f"The trace could not be written to {error}") from error


def dumps(trace: Trace) -> bytes:
    """Return the bytes of an uncompressed trace file."""
    return "".join(json.dumps(encode_line(line), separators=(",", ":")) + "\n" for line in trace.lines).encode()


def encode_line(line: Line) -> dict[str, Any]:
    """Convert a line to JSON values, without the rows of other runs."""
    record: dict[str, Any] = encode_record(line)
    record.pop("shared", None)
    if isinstance(line, Entry):
        return record
    return {"canopy_trace": VERSION, "header": record} if isinstance(line, Header) else {"end": record}


def encode_record(record: Any) -> Any:
    """Convert a record to JSON values. Arrays become {dtype, shape, data}, sets sorted lists; an empty ``OPTIONAL``
    field is left out."""
    if isinstance(record, np.ndarray):
        little = record.astype(record.dtype.newbyteorder("<"), copy=False)
        data = base64.b64encode(np.ascontiguousarray(little).tobytes()).decode()
        return {"dtype": little.dtype.str, "shape": list(record.shape), "data": data}
    if isinstance(record, tuple | list):
        return list(map(encode_record, record))
    if isinstance(record, frozenset):
        return sorted(record)
    if isinstance(record, Mapping):
        return {str(name): encode_record(value) for name, value in record.items()}
    if is_dataclass(record):
        values = {field: getattr(record, field.name) for field in fields(record)}
        return {field.name: encode_record(value) for field, value in values.items()
                if "optional" not in field.metadata or value}
    return record
