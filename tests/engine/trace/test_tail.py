"""The reader of a growing trace file returns each line once it is complete, compressed or not, and reports errors."""

import gzip
import os
from pathlib import Path

import pytest

from engine.recorder import Recorder
from engine.trace import End, Entry, Header, Line, loads
from engine.trace.reading import TraceTail
from tests.engine.test_trace import WHOLE, same

TRACE = loads(WHOLE)
LINES: list[Line] = [TRACE.header, *TRACE.entries, TRACE.end]


@pytest.mark.parametrize("step", [1, 777, 10**6])
@pytest.mark.parametrize("packed", [False, True])
def test_each_line_is_returned_once_it_is_complete(step: int, packed: bool, tmp_path: Path) -> None:
    data = gzip.compress(WHOLE, mtime=0) if packed else WHOLE
    step = max(step, len(data) // 400)
    path, lines = tmp_path / "run.jsonl", list[Line]()
    tail = TraceTail(path)
    for place in range(0, len(data), step):
        with path.open("ab") as file:
            file.write(data[place:place + step])
        lines += tail.lines()
        if not packed:
            assert len(lines) == WHOLE[:place + step].count(b"\n")
    assert all(same(one, other) for one, other in zip(lines, LINES, strict=True))
    assert tail.lines() == []
    assert not tail.replaced()


def test_a_large_addition_is_read_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.trace.stream.STEP_BYTES", 500)
    (tmp_path / "run.jsonl.gz").write_bytes(gzip.compress(WHOLE, mtime=0))
    tail, steps = TraceTail(tmp_path / "run.jsonl.gz"), []
    for _ in range(len(WHOLE) // 100):
        steps.append(tail.lines())
    assert [type(line) for step in steps for line in step] == [Header, *[Entry] * len(TRACE.entries), End]
    assert max(map(len, steps)) < len(LINES)


def test_members_of_a_gzip_file_are_read_in_order(tmp_path: Path) -> None:
    path, half = tmp_path / "run.jsonl.gz", len(WHOLE) // 2
    path.write_bytes(gzip.compress(WHOLE[:half]) + b"\0" * 9)
    tail = TraceTail(path)
    first = tail.lines()
    with path.open("ab") as file:
        file.write(b"\0" + gzip.compress(WHOLE[half:]))
    assert all(same(one, other) for one, other in zip([*first, *tail.lines()], LINES, strict=True))


def test_a_replaced_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(WHOLE)
    tail = TraceTail(path)
    tail.lines()
    assert not tail.replaced()
    os.truncate(path, 10)
    assert tail.replaced()
    tail = TraceTail(path)
    tail.lines()
    (tmp_path / "other").write_bytes(WHOLE)
    (tmp_path / "other").replace(path)
    assert tail.replaced()
    path.unlink()
    assert not tail.replaced()  # the file that was read counts until there is another


def test_a_refused_round_is_not_returned(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.jsonl.gz") as recorder:
        recorder.round(tokens=[1], parents=[3], keep=[0], bonus=2)
        recorder.round(tokens=[1], parents=[0], keep=[0], bonus=2)
    assert [type(line) for line in TraceTail(tmp_path / "run.jsonl.gz").lines()] == [Header, Entry, End]
