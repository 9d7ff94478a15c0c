"""A small file cannot make its reader hold much, and what is no file is not read at all."""

import gzip
import os
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from engine.errors import TraceError
from engine.trace import LIMITS, Limits, dump, dumps, load, loads
from engine.trace.reading import TraceTail
from tests.engine.test_trace import made
from tests.engine.trace.bombs import BOMBS, HEADER, LINES, packed, zeros

WHOLE = dumps(made("ddtree"))
ORDINARY = Path(__file__).parents[3] / "assets" / "traces" / "too-large.jsonl.gz"


def peak_bytes(act: Callable[[], object]) -> int:
    """The most memory that was held on the way, arrays of numpy included."""
    tracemalloc.start()
    try:
        act()
    except TraceError as error:
        assert str(error).endswith(".")
    finally:
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return taken


@pytest.mark.parametrize("name", [name for name in BOMBS if name != "many_rounds"])
def test_a_bomb_takes_no_more_than_ten_times_an_ordinary_trace(name: str) -> None:
    bomb, ordinary = BOMBS[name](), ORDINARY.read_bytes()
    with pytest.raises(TraceError, match="times its size|the most that is read|where"):
        loads(bomb)
    usual = peak_bytes(lambda: loads(ordinary)) / len(ordinary)
    assert peak_bytes(lambda: loads(bomb)) < max(10 * usual * len(bomb), 3 * LIMITS.free_bytes + 2**20)


def test_what_is_written_is_never_taken_for_a_bomb(tmp_path: Path) -> None:
    trace = made("ddtree", most=6)
    same = replace(trace, header=replace(trace.header, pieces=dict.fromkeys(range(4000), "the same again " * 60)))
    assert len(gzip.compress(dumps(same))) * LIMITS.growth < len(dumps(same)) > LIMITS.free_bytes
    dump(same, tmp_path / "same.jsonl.gz")
    assert load(tmp_path / "same.jsonl.gz").header.pieces == same.header.pieces
    assert (tmp_path / "same.jsonl.gz").stat().st_size < len(dumps(same)) / 10


@pytest.mark.parametrize("line", [b'{"refused":7}', b'{"refused":{"index":1,"reason":""},"x":[]}', b""])
@pytest.mark.parametrize("packed", [False, True])
def test_a_million_lines_are_refused_at_once_whatever_they_hold(line: bytes, packed: bool, tmp_path: Path) -> None:
    many = b"\n".join([LINES[0], *[line] * 1_000_000, b""])
    refused_soon(gzip.compress(many, 0) if packed else many, tmp_path)


@pytest.mark.parametrize("inside", [b"", b"\n", b'{"refused":7}\n'])
def test_a_million_members_of_a_gzip_file_are_refused_at_once(inside: bytes, tmp_path: Path) -> None:
    refused_soon(gzip.compress(LINES[0] + b"\n") + gzip.compress(inside) * 1_000_000, tmp_path)


def refused_soon(data: bytes, folder: Path) -> None:
    """In seconds of this process, read whole and followed; a second where the machine is quiet."""
    path = folder / "run.jsonl.gz"
    path.write_bytes(data)
    for read in (partial(loads, data), partial(load, path), partial(followed, path)):
        began = time.process_time()
        with pytest.raises(TraceError, match=r"which is the most that is|cannot be read|are read\.$"):
            read()
        assert time.process_time() - began < 5


def followed(path: Path) -> None:
    """Read a file as one that grows."""
    tail = TraceTail(path)
    for _ in range(1000):
        tail.lines()


@pytest.mark.parametrize(("limits", "sentence"), [
    (Limits(file_bytes=1000), "has [0-9,]+ bytes, and at most 1,000 bytes are read"),
    (Limits(unpacked_bytes=3000), "unpacks to more than 3,000 bytes"),
    (Limits(line_bytes=500), "a line of more than 500 bytes"), (Limits(line_values=20), "more than 20 values"),
    (Limits(lines=2), "more than 2 lines, which is the most that is read"),
    (Limits(pieces=5), "the text of more than 5 tokens"),
    (Limits(growth=1, free_bytes=0), "more than 1 times its size")])
def test_each_limit_has_its_sentence(limits: Limits, sentence: str, tmp_path: Path) -> None:
    for data in (WHOLE, gzip.compress(WHOLE)):
        if limits.growth == 1 and data is WHOLE:
            continue
        path = tmp_path / "run.jsonl"
        path.write_bytes(data)
        for read in (partial(loads, data, "run.jsonl", limits), partial(load, path, limits)):
            with pytest.raises(TraceError, match=sentence) as refusal:
                read()
            assert "run.jsonl" in str(refusal.value)


def test_large_trees_are_refused() -> None:
    large = {"round": {"index": 0, "start": 0, "acceptance": {"keep": zeros(1), "bonus": 1},
                       "tree": {"tokens": zeros(20_000), "parents": zeros(20_000)}},
             "pieces": {}, "elapsed_seconds": 0}
    with pytest.raises(TraceError, match="a tree of 20,000 nodes, where 16,384 are allowed"):
        loads(b"\n".join([packed(HEADER), packed(large), LINES[-1]]) + b"\n")


def test_nesting_is_refused_however_deep() -> None:
    for depth in (900, 1100, 100_000, 2_000_000):
        with pytest.raises(TraceError, match="nested too deeply|values|cannot be read"):
            loads(LINES[0] + b"\n" + b"[" * depth + b"]" * depth + b"\n")


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/null", "/proc/self/mem", "folder", "pipe", "", "a\0b", "x" * 300])
def test_what_is_no_file_is_not_read(place: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / place if place and not place.startswith("/") else Path(place)
    with pytest.raises(TraceError, match="cannot be read: it is a (device|folder|pipe)|cannot be read|first line"):
        load(path)
    if place == "/dev/zero":
        assert peak_bytes(lambda: load(path)) < 2**20


