"""A small file cannot make its reader use much memory, and only ordinary files are read."""

import gzip
import json
import math
import os
import time
import tracemalloc
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import TraceError
from engine.recorder import MAX_LINE_BYTES
from engine.trace import dumps, encode_record, estimate_bytes, load, loads
from engine.trace.reading import MAX_LINES, TraceTail
from tests.engine.test_trace import peak_bytes, toy_trace

WHOLE = dumps(toy_trace("ddtree"))
LINES = dumps(toy_trace("ddtree", most=6)).splitlines()
HEADER, ROUND = json.loads(LINES[0]), json.loads(LINES[1])


def zeros(count: int, dtype: str = "<i4") -> dict[str, Any]:
    """Return an encoded array of zeros."""
    return {"dtype": dtype, "shape": [count], "data": b64encode(bytes(int(dtype[2]) * count)).decode()}


def header(**fields: Any) -> bytes:
    """Return the header's line with other values in it."""
    return json.dumps({**HEADER, "header": {**HEADER["header"], **fields}}, ensure_ascii=False).encode()


def large_tree() -> bytes:
    """Return the line of a valid round of two million nodes."""
    tree = {"tokens": zeros(2 * 10**6), "parents": zeros(2 * 10**6)}
    return json.dumps({**ROUND, "round": {
        **ROUND["round"], "tree": tree, "verification": {}, "drafts": [], "candidates": []}}).encode()


BOMBS: dict[str, Callable[[], list[bytes]]] = {  # lines of small files that unpack to much more
    "empty lists": lambda: [LINES[0], b"[" + b"[]," * 10**7 + b"[]]"],  # once took 3.7 GB
    "spaces": lambda: [LINES[0], b" " * 2**26],
    "a header of empty lists": lambda: [b'{"canopy_trace":4,"header":{"pieces":{' + b'"1":[],' * 10**7 + b'"1":[]}}}'],
    "a large tree": lambda: [LINES[0], large_tree()],
    "a long prompt": lambda: [header(request={**HEADER["header"]["request"], "prompt_ids": zeros(2 * 10**6, "<i8")})],
    "long texts of tokens": lambda: [header(pieces=dict.fromkeys(range(20_000), "🌳" * 1000))],
    "zeros": lambda: [bytes(2**26)]}


@pytest.mark.parametrize("name", BOMBS)
def test_a_compression_bomb_uses_little_memory(name: str) -> None:
    bomb = gzip.compress(b"\n".join([*BOMBS[name](), *LINES[1:]]))
    with pytest.raises(TraceError):
        loads(bomb)
    assert peak_bytes(lambda: loads(bomb)) < 4 * MAX_LINE_BYTES


def array(*shape: int, dtype: str = "<i4") -> dict[str, Any]:
    """Return an encoded array of zeros in that shape."""
    return {**zeros(math.prod(shape), dtype), "shape": list(shape)}


CHAIN = {"tokens": array(1), "parents": array(1)}
EMPTY = {"tokens": array(0, 0, 0), "logprobs": array(0, 0, 0, dtype="<f4"), "follow": array(0, 0, 0)}
COSTLY: dict[str, dict[str, Any]] = {  # parts of a round that take more memory than their bytes
    "lattices": {"drafts": [EMPTY] * 16}, "candidates": {"candidates": [CHAIN] * 16},
    "stages": {"seconds": {f"stage {number}": 0.5 for number in range(64)}},
    "alternatives": {
        "tree": {"tokens": array(32), "parents": encode_record(np.maximum(np.arange(-1, 31, dtype=np.int32), 0))},
        "acceptance": {"keep": encode_record(np.arange(32, dtype=np.int32)), "bonus": 1},
        "alternatives": {"tokens": array(32, 64), "logprobs": array(32, 64, dtype="<f4")}},
    "trials": {
        "tree": {"tokens": array(2), "parents": array(2)},
        "acceptance": {"keep": array(1), "bonus": 1, "trials": {
            "nodes": encode_record(np.ones(2048, np.int32)),
            "chances": array(2048, dtype="<f4"), "draws": array(2048, dtype="<f4")}}}}


@pytest.mark.parametrize("name", COSTLY)
def test_the_memory_of_every_part_is_counted(name: str) -> None:
    bare = {"index": 0, "start": 3, "tree": CHAIN, "acceptance": {"keep": array(1), "bonus": 1}}
    line = json.dumps({**ROUND, "pieces": {}, "round": {**bare, **COSTLY[name]}}).encode()
    data = b"\n".join([LINES[0], *[line] * 200, b""])
    tracemalloc.start()
    trace = loads(data)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(trace.entries) == 200 and 0.8 < sum(map(estimate_bytes, trace.lines)) / taken < 1.5


MANY = 3 * MAX_LINES


@pytest.mark.parametrize("data", [
    *(pytest.param(packs(b"\n".join([LINES[0], *[line] * MANY, b""])), id=f"{name} {line.decode()}")
      for line in (b'{"refused":7}', b'{"refused":{"index":1,"reason":""},"x":[]}', b"")
      for name, packs in (("lines", bytes), ("packed lines", partial(gzip.compress, compresslevel=0)))),
    *(pytest.param(gzip.compress(LINES[0] + b"\n") + gzip.compress(inside) * MANY, id=f"members {inside.decode()}")
      for inside in (b"", b"\n", b'{"refused":7}\n'))])
def test_too_many_lines_or_members_are_refused_at_once(data: bytes, tmp_path: Path) -> None:
    """Measure processor time; the limit leaves room for a busy machine."""
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(data)
    for read in (partial(loads, data), partial(load, path), partial(follow, path)):
        began = time.process_time()
        with pytest.raises(TraceError):
            read()
        assert time.process_time() - began < 5


def follow(path: Path) -> None:
    """Read a file as one that is still growing."""
    tail = TraceTail(path)
    for _ in range(1000):
        tail.lines()


@pytest.mark.parametrize(("limit", "value", "numbers"), [
    ("stream.MAX_FILE_BYTES", 1000, "1,000"), ("stream.MAX_UNPACKED_BYTES", 3000, "3,000"),
    ("reading.MAX_HELD_BYTES", 9000, "9,000"),
    ("reading.MAX_PIECES", 5, r"8\b.* 5"), ("reading.MAX_PIECES", 10, "10")])  # in one line, in all lines
def test_data_beyond_a_limit_is_refused_with_the_limit(
        limit: str, value: int, numbers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"engine.trace.{limit}", value)
    for data in (WHOLE, gzip.compress(WHOLE), gzip.compress(WHOLE)[:-20]):
        (tmp_path / "run.jsonl").write_bytes(data)
        for read in (partial(loads, data, "run.jsonl"), partial(load, tmp_path / "run.jsonl")):
            with pytest.raises(TraceError, match=f"run.jsonl .* {numbers} "):
                read()


def test_nesting_is_refused_however_deep() -> None:
    for depth in (900, 1100, 100_000, 2_000_000):
        with pytest.raises(TraceError, match="line 2"):
            loads(LINES[0] + b"\n" + b"[" * depth + b"]" * depth + b"\n")


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/null", "/proc/self/mem", "folder", "pipe", "", "a\0b", "x" * 300])
def test_only_ordinary_files_are_read(place: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / place if place and not place.startswith("/") else Path(place)
    with pytest.raises(TraceError):
        load(path)
    if place == "/dev/zero":
        assert peak_bytes(lambda: load(path)) < 2**20
