"""Trace files: a round trip keeps every bit, and a file that is not a trace is refused in one sentence."""

import gzip
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.decoding.methods import METHODS
from engine.errors import CanopyError, TraceError
from engine.records import Request
from engine.trace import (
    End,
    Entry,
    Header,
    Line,
    MeasuredBudget,
    Piece,
    Trace,
    dump,
    dumps,
    load,
    loads,
    trace_from_lines,
)
from tests.engine.helpers import WARM, drafters_of, run
from tests.engine.toy import ToyTarget

PIECES: dict[int, Piece] = {
    0: "a", 1: " <script>", 2: "\n", 3: "${7*6}", 4: "שלום", 5: (240, 159), 6: "\u2028", 7: "🌳"}


def toy_trace(method: str, budget: int = 9, most: int = 20) -> Trace:
    """Return the trace of a finished toy run."""
    target = ToyTarget(seed=2)
    request = Request((1, 2, 3), method=method, budget=budget, max_tokens=most, sampling=WARM,
                      stop_ids=frozenset([5, 99]))
    drafters = drafters_of(method, target)
    rounds = run(request, target, drafters)
    header = Header(
        request, "one\ttwo\n🌳 \u2028", "toy", tuple(f"drafter {index}" for index in range(len(drafters))), "one core",
        "float32", 128, PIECES, {"toy": "1"}, title="T", note="N", recorded="2026-11-21", engine="E", every=2,
        precision="P", chunked=True, interleaved=True, recurrent_layers=3, drafter_kinds=("eagle3",),
        curve=(MeasuredBudget(4, 2.0, 1.5, 1.4, 1.6), MeasuredBudget(8, 2.5, 1.25, 1.0, 1.5)),
        turns=(("system", "</script>"), ("user", "${7*6} 🌳"), ("assistant", "")))
    entries = tuple(Entry(round_, {round_.index: "piece"}, 0.1 * round_.index) for round_ in rounds)
    return Trace(header, entries, End("length", len(rounds), 1 / 3, 1, 2, "", 3, 4))


def same(one: Any, other: Any) -> bool:
    """Return whether types, dtypes, shapes and bits are equal at every level."""
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if is_dataclass(one):
        return type(one) is type(other) and all(
            same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return bool(type(one) is type(other) and one == other)


def peak_bytes(act: Callable[[], object]) -> int:
    """Return the peak of traced memory during a call, which may raise a CanopyError."""
    tracemalloc.start()
    try:
        act()
    except CanopyError as error:
        assert str(error).endswith(".")
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


@pytest.mark.parametrize("method", list(METHODS))
def test_a_file_gives_back_every_field_of_every_round(method: str, tmp_path: Path) -> None:
    trace = toy_trace(method)
    for name in ("run.jsonl", "run.jsonl.gz"):
        dump(trace, tmp_path / name)
        assert same(load(tmp_path / name), trace)
    assert dumps(load(tmp_path / "run.jsonl.gz")) == dumps(trace) == (tmp_path / "run.jsonl").read_bytes()
    assert gzip.decompress((tmp_path / "run.jsonl.gz").read_bytes()) == dumps(trace)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.jsonl", "run.jsonl.gz"]


def test_probability_0_and_empty_rounds_survive() -> None:
    trace = toy_trace("nanogpt", budget=14)
    assert any(np.isneginf(entry.round.verification.processed).any() for entry in trace.entries)
    assert same(loads(dumps(trace)), trace)
    ended = Trace(trace.header, (), End("stop", 0, 0.0))
    assert same(loads(dumps(ended)), ended)


def test_gather_needs_a_complete_run() -> None:
    trace = toy_trace("ddtree")
    assert same(trace_from_lines([trace.header, *trace.entries, trace.end]), trace)
    unfinished: list[list[Line]] = [[], [trace.header], [trace.header, *trace.entries], [*trace.entries, trace.end]]
    for lines in unfinished:
        with pytest.raises((TraceError, ValueError)):
            trace_from_lines(lines)


WHOLE = dumps(toy_trace("routed", most=6))


def refusal_of(data: bytes) -> str:
    """Return the sentence with which the file is refused."""
    with pytest.raises(TraceError) as refusal:
        loads(data, "run.jsonl")
    sentence = str(refusal.value)
    assert sentence.startswith("run.jsonl ")
    assert sentence.endswith(".")
    return sentence


def test_a_truncated_file_opens_up_to_its_last_complete_round() -> None:
    whole = loads(WHOLE)
    header, first, *_ = ends = [place + 1 for place, byte in enumerate(WHOLE) if byte == 10][:-1]
    packed = gzip.compress(WHOLE, mtime=0)
    for length in [*ends, *(end + 1 for end in ends), *range(0, len(WHOLE), 997), len(WHOLE) - 1]:
        count = sum(end <= length for end in ends) - 1
        if count < 1:
            refusal_of(WHOLE[:length])
            continue
        cut = loads(WHOLE[:length])
        assert same(cut.entries, whole.entries[:count])
        assert cut.end == End("cut", count, cut.entries[-1].elapsed_seconds)
    assert loads(WHOLE[:ends[-1]]).end.rounds == len(whole.entries)
    refusal_of(WHOLE[:first - 1])
    refusal_of(WHOLE[:header])
    assert 0 < loads(packed[:len(packed) * 3 // 4]).end.rounds < len(whole.entries)


def test_another_version_is_refused_with_both_numbers() -> None:
    sentence = refusal_of(WHOLE.replace(b'"canopy_trace":5', b'"canopy_trace":7', 1))
    assert "7" in sentence and "5" in sentence


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_files_of_older_versions_are_read(version: int) -> None:
    """Version 4 had other names for drafters and notes, 2 had no turns, and 1 had no pace: it was always fixed."""
    former = WHOLE.replace(b'"drafters":', b'"heads":').replace(b'"note":""', b'"said":""')
    header, rest = former.split(b"\n", 1)
    line = {**json.loads(header), "canopy_trace": version}
    whole = loads(WHOLE)
    if version <= 2:
        del line["header"]["turns"]
        whole = replace(whole, header=replace(whole.header, turns=()))
    if version == 1:
        del line["header"]["request"]["pace"]
    assert same(loads(json.dumps(line).encode() + b"\n" + rest), whole)


@pytest.mark.parametrize("junk", [
    b"", b"\n", b"{}\n", b"[]\n", b"null\n", b"\x00\xff\xfe\n", b"hello\nworld\n", b"\x89PNG\r\n\x1a\n",
    b'{"canopy_trace":3}\n', b'{"canopy_trace":3,"header":{}}\n', b'{"canopy_trace":4,"header":[]}\n',
    b"[" * 100_000 + b"\n", b"1e999\n",
    b'{"end":{"reason":"stop","rounds":0,"seconds":0}}\n'])
def test_junk_is_refused(junk: bytes) -> None:
    refusal_of(junk)


def test_damaged_gzip_is_refused_or_taken_as_cut_off() -> None:
    packed = gzip.compress(WHOLE, mtime=0)
    for length in (2, 10, 18, 40):
        refusal_of(packed[:length])
    outcomes = []
    for place in range(10, len(packed), 61):
        damaged = bytearray(packed)
        damaged[place] ^= 0x55
        try:
            read = loads(bytes(damaged))
            outcomes.append("whole" if same(read, loads(WHOLE)) else read.end.reason)
        except TraceError as error:
            outcomes.append("refused")
            assert str(error).endswith(".")
    assert set(outcomes) <= {"refused", "cut", "whole"}
    assert outcomes.count("refused") > 0.8 * len(outcomes)


def test_a_missing_file_and_a_full_disk_are_named_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="none.jsonl"):
        load(tmp_path / "none.jsonl")
    (tmp_path / "file").touch()
    for folder in (tmp_path / "nowhere", tmp_path / "nowhere" / "deep", tmp_path / "file"):
        for use in (partial(dump, toy_trace("dflash")), load):
            with pytest.raises(TraceError, match=rf"run.jsonl.* '{folder}'\.$"):
                use(folder / "run.jsonl")
