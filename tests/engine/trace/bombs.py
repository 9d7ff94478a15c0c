"""Traces that are small and want to be large: each as the bytes of a file, with what an honest reader should say."""

import gzip
import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from engine.trace import dumps
from tests.engine.test_trace import made

LINES = dumps(made("ddtree", most=6)).splitlines()
HEADER, ROUND = json.loads(LINES[0]), json.loads(LINES[1])


def file_of(*lines: bytes) -> bytes:
    """A gzipped file of these lines."""
    return gzip.compress(b"\n".join(lines) + b"\n", 9)


def packed(value: Any) -> bytes:
    """A JSON value as a line."""
    return json.dumps(value, separators=(",", ":")).encode()


def zeros(count: int) -> dict[str, Any]:
    """An array of nothing, as a trace has it."""
    return {"dtype": "<i4", "shape": [count], "data": b64encode(bytes(4 * count)).decode()}


def lists() -> bytes:
    """One line of ten million empty lists: 204 KB that took 3.7 GB."""
    return file_of(LINES[0], b"[" + b"[]," * 10_000_000 + b"[]]", LINES[-1])


def blanks() -> bytes:
    """Spaces without end."""
    return file_of(LINES[0], b" " * 2**28, LINES[-1])


def header_of_lists() -> bytes:
    """The header itself is the bomb: 245 KB that took 5.9 GB."""
    return file_of(b'{"canopy_trace":4,"header":{"pieces":{' + b'"1":[],' * 20_000_000 + b'"1":[]}}}', LINES[-1])


def large_tree() -> bytes:
    """A round of ten million nodes, all of them sound: 59 KB that were taken and kept 950 MB."""
    many = 4_000_000
    value = {**ROUND["round"], "tree": {"tokens": zeros(many), "parents": zeros(many)}, "verification": {},
             "acceptance": {"keep": zeros(1), "bonus": 1}, "drafts": [], "candidates": []}
    return file_of(LINES[0], packed({**ROUND, "round": value}), LINES[-1])


def many_rounds() -> bytes:
    """The same bare round, over and over."""
    tree = {"tokens": zeros(1), "parents": zeros(1)}
    bare = {"index": 0, "start": 0, "tree": tree, "acceptance": {"keep": zeros(1), "bonus": 1}}
    line = packed({"round": bare, "pieces": {}, "elapsed_seconds": 0})
    return file_of(LINES[0], *[line] * 500_000, LINES[-1])


def long_prompt() -> bytes:
    """A prompt of twenty million tokens."""
    header = HEADER["header"]
    ids = {"dtype": "<i8", "shape": [5_000_000], "data": b64encode(np.full(5_000_000, 77_777).tobytes()).decode()}
    return file_of(packed({**HEADER, "header": {**header, "request": {**header["request"], "prompt_ids": ids}}}),
                   *LINES[1:])


def texts() -> bytes:
    """Tokens with one long text each."""
    pieces = {str(token): "🌳" * 1000 for token in range(20_000)}
    return file_of(packed({**HEADER, "header": {**HEADER["header"], "pieces": pieces}}), *LINES[1:])


def zeros_forever() -> bytes:
    """Not even JSON."""
    return gzip.compress(bytes(2**28), 9)


BOMBS: Mapping[str, Callable[[], bytes]] = MappingProxyType({each.__name__: each for each in (
    lists, blanks, header_of_lists, large_tree, many_rounds, long_prompt, texts, zeros_forever)})
