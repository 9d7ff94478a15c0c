"""Reads the events of a stream (``data: {…}`` lines, ``data: [DONE]`` last) from pieces of bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from engine.errors import ServerError

LONGEST_LINE = 2**20  # bytes
LAST = b"[DONE]"


def events(pieces: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    """The JSON object of every event. ServerError where the stream breaks off or sends anything else."""
    for line in _lines(pieces):
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


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > LONGEST_LINE:
            raise ServerError(f"The server sent a line of more than {LONGEST_LINE // 2**20} MiB, which is too long.")
    if rest.strip():
        yield rest


def _seen(data: bytes) -> str:
    text = data.strip().decode("utf8", "replace")
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
