"""Whatever a recorder is given, the reader opens what it wrote, with exactly the rounds that it took."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.recorder import CHOICE, HEADER, REQUEST, ROUND, Recorder
from engine.trace import load
from engine.trace.reading import TraceTail

ODD = st.sampled_from([
    None, True, -1, 0, 1, 7, 2**31 - 1, 2**31, 2**40, 2**64, -2**70, 10**400, 0.5, float("nan"), float("inf"),
    -float("inf"), 1e308, "", "x", "7", "\ud83d", "x" * 500, "\0\u202e", b"x", b"\xff", [], [[]], [0], [-1], [1, 2],
    [[1], [2, 3]], [None], ["a"], [0.5], [float("inf")], {}, {7: 7}, {"nodes": [1]}, {"tokens": [1]}, {"draft": -1},
    {"x" * 500: 1}, {"\ud800": 1},
    np.zeros(0), np.ones((2, 2)), np.float32("nan"), np.int64(3), np.arange(4, dtype=np.uint64), object()])


@st.composite
def rounds(draw: st.DrawFn) -> dict[str, Any]:
    """A sound round, with some of its parts in another's place."""
    size = draw(st.integers(1, 6))
    parents = [0, *(draw(st.integers(0, node - 1)) for node in range(1, size))]
    keep = [draw(st.integers(0, size - 1))]
    while keep[0]:
        keep.insert(0, parents[keep[0]])
    numbers = np.arange(size, dtype=np.float32)
    lattice = {"tokens": np.ones((2, 3), int), "logprobs": -np.ones((2, 3))}
    more: dict[str, Any] = {
        **dict.fromkeys(CHOICE, -numbers), "choice": [3] * size, "drafters": [1] * size, "entropy": numbers,
        "gap": numbers, "drafts": [lattice] * draw(st.sampled_from([1, 2, 17])), "seconds": {"draft": 0.1, "verify": 2},
        "candidates": [{"tokens": [1, 2], "parents": [-1, 0]}], "node_logprobs": -numbers,
        "start": draw(st.integers(0, 99)),
        "trials": {"nodes": [draw(st.integers(0, size))], "chances": [0.5], "draws": [0.1]}}
    parts = {"tokens": list(range(size)), "parents": parents, "keep": keep, "bonus": draw(st.integers(0, 9)),
             **{name: more[name] for name in draw(st.sets(st.sampled_from(sorted(more))))}}
    changed = draw(st.one_of(st.just({}), st.dictionaries(st.sampled_from([*ROUND, "choices"]), ODD, max_size=2)))
    return {**parts, **changed}


RUNS = st.dictionaries(st.sampled_from([*REQUEST, *(name for name in HEADER if name != "every"), "drafters"]), ODD)
TEXTS = st.one_of(st.none(), st.dictionaries(st.integers(0, 9), ODD), ODD.map(lambda odd: lambda token: odd))


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(rounds(), max_size=5), RUNS, TEXTS, st.sampled_from(["run.jsonl", "run.jsonl.gz"]))
def test_what_a_recorder_writes_is_opened_with_exactly_the_rounds_it_took(
        made: list[dict[str, Any]], about: dict[str, Any], texts: Any, name: str) -> None:
    sound = {"tokens": [1, 2], "parents": [0, 0], "keep": [0, 1], "bonus": 3}
    about = {part: value for part, value in about.items() if part not in ("stop_ids", "max_tokens")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        with Recorder(path, **about, token_text=texts) as recorder:
            for parts in (*made, sound):
                recorder.round(**parts)
        trace, tail = load(path), TraceTail(path)
        assert len(tail.lines()) == len(trace.entries) + 2
    assert (trace.end.rounds, trace.end.refused, trace.end.said) == (len(made) + 1, recorder.refused, "")
    assert len(trace.entries) == len(made) + 1 - recorder.refused
    assert trace.entries[-1].round.index == len(made)
    assert trace.entries[-1].round.committed.tolist() == [1, 2]
