"""Reads the events of a stream (``data: {…}`` lines, ``data: [DONE]`` last) from pieces of bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from engine.errors import ServerError

LONGEST_LINE = 2**20  # bytes
LAST = b"[DONE]"


def events(pieces: Iterable[bytes]) -> Iterator[Mapping[str, Any] | None]:
    """The JSON object of every event, and None after every piece, so that whoever waits can look whether the answer is
    still wanted. ServerError where the stream breaks off or sends anything else."""
    for line in _lines(pieces):
        if line is None:
            yield None
            continue
        name, _, value = line.partition(b":")
        if name.strip() != b"data":
            continue  # a comment, the name of an event, an empty line
        if value.strip() == LAST:
            return
        yield parsed(value)
    raise ServerError("The server's answer breaks off in the middle; what came until then is kept.")


def parsed(data: bytes) -> Mapping[str, Any]:
    """The JSON object in these bytes; ServerError where they are anything else."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ServerError(f"The server sent {_seen(data)}, which is not complete JSON.") from error
    if not isinstance(found, Mapping):
        raise ServerError(f"The server sent {_seen(data)}, where an object is expected.")
    return found


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes | None]:
    """The lines, and None after every piece. It takes time in proportion to the bytes, however small the pieces."""
    line = bytearray()
    for piece in pieces:
        beginning, *others = piece.split(b"\n")
        line += beginning
        for other in others:
            yield bytes(line)
            line = bytearray(other)
        if len(line) > LONGEST_LINE:
            raise ServerError(f"The server sent a line of more than {LONGEST_LINE // 2**20} MiB, which is too long.")
        yield None
    if line.strip():
        yield bytes(line)


def _seen(data: bytes) -> str:
    text = data.strip().decode("utf8", "replace")
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
