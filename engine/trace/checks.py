"""How much memory an untrusted trace may take to read, and checks of its JSON values: each returns the value in its
type, or raises ValueError with the reason.

What a trace may hold is decided in ``engine/recorder.py``, whose limits these are; here is what only a reader meets:
uploads, and what JSON allows and the rest of Canopy cannot hold (lone surrogates, integers of a thousand digits,
infinities). The longest shipped recording has 2.2 MB in 9 lines; a round of 1,024 nodes with two drafters takes 0.3 MB.
Gzipped recordings are 3 to 8 times smaller than their text, a recorder's barest ones 12 times.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine import recorder
from engine.recorder import LONGEST_NOTE, MOST_PIECES, REQUEST, known, piece, seen, text, whole
from engine.records import Request, Sampling
from engine.trace.lines import Piece

MOST_REVISIONS = 256
ARRAYS = ("<i4", "<i8")  # of token ids, as recorders have written them


def truth(value: Any, name: str) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise ValueError(f"{name} is {seen(value)}, where true or false is allowed")
    return value


def named(value: Any, name: str) -> Mapping[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise ValueError(f"the {name} is {seen(value)}, where an object is allowed")
    return value


def listed(value: Any, name: str) -> list[Any]:
    """A JSON list."""
    if not isinstance(value, list):
        raise ValueError(f"the {name} is {seen(value)}, where a list is allowed")
    return value


def packed_array(value: Any, dtypes: tuple[str, ...], name: str) -> Any:
    """A new array from its {dtype, shape, data}, of one of these dtypes."""
    value = named(value, name)
    dtype, data = value["dtype"], value["data"]
    if dtype not in dtypes:
        raise ValueError(f"an array of dtype {seen(dtype)}, where {' or '.join(dtypes)} is allowed")
    shape = tuple(whole(side, f"{name}'s size") for side in listed(value["shape"], f"{name}'s shape")[:4])
    if len(shape) > 3:
        raise ValueError(f"{name} has more than 3 dimensions")
    if not isinstance(data, str) or not data.isascii():
        raise ValueError(f"the data of {name} are {seen(data)}, where base64 is allowed")
    array = np.frombuffer(base64.b64decode(data, validate=True), np.dtype(dtype))
    if math.prod(shape) != array.size:
        raise ValueError(f"{name} has {array.size} numbers, and its shape is {shape}")
    return array.reshape(shape).copy()


def pieces(value: Any) -> dict[int, Piece]:
    """Tokens' texts by their ids."""
    given = named(value, "pieces")
    if len(given) > MOST_PIECES:
        raise ValueError(f"the text of {len(given):,} tokens, where {MOST_PIECES:,} are allowed")
    shown = {_token(token): piece(part) for token, part in given.items()}
    return {token: part if isinstance(part, str) else tuple(part) for token, part in shown.items()}


def _token(token: str) -> int:
    if not (token.isascii() and token.isdigit() and len(token) <= 10):
        raise ValueError(f"a piece of the token {seen(token)}, where an id is allowed")
    return whole(int(token), "token of a piece")


def request(value: Any, bare: bool) -> Request:
    """A request. ``bare`` allows one without the prompt's tokens, which a recorder may leave out. The method may have
    any name, since rounds are shown by their contents."""
    given = named(value, "request")
    known(given, (*REQUEST, "split", "pace"), "the request")
    fields = {name: check(_unpacked(given[name], name), name) for name, check in REQUEST.items()}
    prompt_ids = tuple(fields["prompt_ids"].tolist())
    if not prompt_ids and not bare:
        raise ValueError("the prompt_ids are empty, where at least one token is allowed")
    usual = Request(())
    return Request(**{
        **fields, "prompt_ids": prompt_ids, "stop_ids": frozenset(fields["stop_ids"].tolist()),
        "sampling": Sampling(**fields["sampling"]), "split": text(given.get("split", usual.split), "split"),
        "pace": text(given.get("pace", usual.pace), "pace")})


def _unpacked(value: Any, name: str) -> Any:
    """Token ids may be an array; all else stands as it is."""
    if not name.endswith("_ids"):
        return value
    return packed_array(value, ARRAYS, name) if isinstance(value, dict) else listed(value, name)


def revisions(value: Any) -> dict[str, str]:
    """Versions by the name of what they belong to."""
    given = named(value, "revisions")
    if len(given) > MOST_REVISIONS:
        raise ValueError(f"{len(given):,} revisions, where {MOST_REVISIONS} are allowed")
    return {text(name, "name of a revision", LONGEST_NOTE): text(version, "revision", LONGEST_NOTE)
            for name, version in given.items()}


@dataclass(frozen=True)
class Limits:
    """The limits of a file: its bytes compressed and uncompressed, the ratio of the two, the members of a gzip file,
    lines (whatever they hold), bytes and JSON values of a line, and tokens that have a text."""

    file_bytes: int = recorder.FILE_BYTES
    unpacked_bytes: int = recorder.UNPACKED_BYTES
    growth: int = recorder.GROWTH
    free_bytes: int = recorder.FREE_BYTES  # unpacked: any file may have so many, however small it is
    members: int = 2**14
    lines: int = recorder.MOST_ROUNDS + 2**8  # rounds, and what else there is
    line_bytes: int = recorder.LINE_BYTES
    line_values: int = recorder.LINE_VALUES
    pieces: int = recorder.MOST_PIECES


LIMITS = Limits()
UPLOADED = Limits(file_bytes=32 * 2**20)
