"""Hostile traces: read and, if accepted, shown, exported, drawn and followed by everything that reads traces. Also
hostile calls of the recorder, whose file has to open with exactly the rounds that it accepted."""

import base64
import gzip
import json
import logging
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from engine.errors import CanopyError, TraceError
from engine.recorder import Recorder, RecorderError
from engine.requests.admission import Admission
from engine.trace import Trace, dumps, estimate_bytes, load, loads
from engine.trace.reading import TraceTail
from explorer.comparison import request_of
from explorer.export import EXPORTS, export
from explorer.lab.lab import Lab
from explorer.recordings import Library, Recording
from explorer.runs import RunLog
from tests.attack.area import Area, BrokenError, Case, check_sentence
from tests.attack.strategies import ODD, mostly, mutated, mutated_bytes, mutated_lines
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_rigs import current_rig

TRACES = Path(__file__).parents[2] / "assets" / "traces"
MAX_ROUNDS, MAX_BYTES = 3, 60_000  # of a mutated recording: longer ones find nothing more and are slower
NEEDED = {"tokens", "parents", "keep", "bonus"}  # the required arguments of Recorder.round
FIGURES = ("node_logprobs", "logprobs", "choice_logprobs", "offered", "processed", "entropy", "gap")
SLOW_READERS = 4  # the lab draws one case in 4, because it takes ten times as long as the other readers
FLOATS = st.sampled_from((-1.5, 0.0, float("nan"), float("-inf"), -1e38, 1e-40))
RUNS = st.fixed_dictionaries({}, optional={
    "prompt": st.sampled_from(("Hi", "", "\0\u202e", "x" * 4000)), "prompt_ids": st.just([1, 2]),
    "method": st.sampled_from(("ddtree", "merged", "their own", "", "__proto__", "constructor")),
    "drafters": st.sampled_from(([], ["a"], ["a", "b"], [""], ["<b>"] * 16)), "every": st.sampled_from((1, 1, 2)),
    "title": st.just("T"), "note": st.just("N"), "engine": st.just("a loop"), "budget": st.just(8),
    "context_limit": st.just(99), "sampling": st.just({"temperature": 0.5, "top_k": 3, "top_p": 0.9, "seed": 1})})


@cache
def recordings() -> tuple[list[bytes], ...]:
    """Return the lines of valid traces: the shipped ones, shortened, and a scripted one of every method."""
    shipped = [gzip.decompress(path.read_bytes()).splitlines() for path in sorted(TRACES.glob("*.gz"))]
    scripted = [dumps(scripted_trace(method, budget)).splitlines() for method, budget in (
        ("joint", 6), ("merged", 5), ("routed", 3), ("autoregressive", 0), ("nanogpt", 3), ("nanogpt_ratio", 3))]
    cut = [[*lines[:1 + MAX_ROUNDS], lines[-1]] for lines in [*shipped, *scripted]]
    return tuple(lines for lines in cut if sum(map(len, lines)) < MAX_BYTES)


@st.composite
def rounds(draw: Callable[..., Any]) -> dict[str, Any]:
    """Draw a round with a valid tree, of a shape that no method makes, and some of the optional fields."""
    parents = [0, *(draw(st.integers(0, node)) for node in range(draw(st.sampled_from((0, 1, 2, 8, 30)))))]
    size = len(parents)
    keep = [draw(st.integers(0, size - 1))]
    while keep[0]:
        keep.insert(0, parents[keep[0]])
    tokens, floats = list(range(size)), dict.fromkeys(FIGURES, [draw(FLOATS)] * size)
    depth, rows, width = draw(st.tuples(st.integers(0, 3), st.integers(1, 2), st.integers(0, 4)))
    cells = [[[rows - 1] * width] * rows] * depth
    draft = {"tokens": cells, "logprobs": [[[-1.5] * width] * rows] * depth, "follow": cells}
    more = {"choice": tokens, "drafters": [draw(st.integers(0, 3))] * size, "drafts": [draft] * 2,
            "candidates": [{"tokens": tokens, "parents": parents, "logprobs": floats["gap"]}], **floats,
            "seconds": {"draft": 0.001, "verify": 1e9, "__proto__": 1, "other": 0},
            "start": draw(st.sampled_from((0, 7, 2**30))),
            "trials": {"nodes": [size - 1], "chances": [0.5], "draws": [0.25]}}
    chosen = draw(st.sets(st.sampled_from(sorted(more))))
    return {"tokens": tokens, "parents": parents, "keep": keep, "bonus": 5, **{name: more[name] for name in chosen}}


TEXTS = st.sampled_from(("a", " b", "\n", "", "\0", "\u2028", "</script>", [226], [0])) | ODD
CALLS = st.fixed_dictionaries({  # what a loop hands to a recorder
    "run": RUNS | RUNS | RUNS.flatmap(mutated), "rounds": st.lists(rounds() | rounds().flatmap(mutated), max_size=4),
    "texts": st.dictionaries(st.integers(0, 9).map(str), TEXTS, max_size=9), "packed": st.booleans()})


def record(case: Case, path: Path) -> Recorder:
    """Give the calls of a case to a recorder, then a valid round."""
    run = case["run"] if isinstance(case["run"], dict) else {}
    with Recorder(path, **run, token_text=lambda token: case["texts"][str(token)]) as recorder:
        for parts in case["rounds"]:
            if isinstance(parts, dict) and set(parts) >= NEEDED:
                recorder.round(**{name: _array(value) for name, value in parts.items()})
        recorder.round(tokens=[1, 2], parents=[0, 0], keep=[0, 1], bonus=3)
    return recorder


def _array(value: Any) -> Any:
    """Return the array that {dtype, shape, data} describes, or the value itself."""
    with suppress(LookupError, TypeError, ValueError, AttributeError):
        return np.frombuffer(base64.b64decode(value["data"]), value["dtype"]).reshape(value["shape"])
    return value


@st.composite
def hostile_trace(draw: Callable[..., Any]) -> bytes:
    """Draw a trace file: a recording of this or an older version, altered, truncated, packed or padded."""
    lines = recordings()[draw(st.integers(0, len(recordings()) - 1))]
    data = draw(mutated_lines(lines)) if draw(st.integers(0, 3)) else b"\n".join(lines)
    if draw(mostly(False, True)):
        data = data.replace(b'"drafters":', b'"heads":').replace(b'"canopy_trace":5', b'"canopy_trace":4', 1)
    if draw(mostly(False, True, times=49)):
        line = draw(st.sampled_from((b'{"refused":7}', b'{"refused":{"index":-1}}', b'{"round":7}', b"")))
        data = data.replace(b"\n", b"\n" + (line + b"\n") * 5000, 1)
    if draw(mostly(False, True)):
        data = draw(mutated_bytes(data))
    if draw(mostly(False, True)):
        member = gzip.compress(draw(st.sampled_from((b"", b"\n", b'{"round":7}\n'))), 1, mtime=0)
        data = gzip.compress(data, 1) + member * draw(mostly(0, 500, 17_000))
        data = draw(mutated_bytes(data)) if draw(st.booleans()) else data
    return data


class Attack(Area):
    """Read traces as the page, the lab and the command line do."""

    cases = st.one_of(CALLS, *[hostile_trace().map(lambda data: {"trace": base64.b64encode(data).decode()})] * 5)

    def __init__(self) -> None:
        self._log = logging.getLogger("canopy")
        self._level = self._log.level
        self._log.setLevel(logging.ERROR)  # the recorder says what it leaves out
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name, "run.jsonl")
        self._at_hand: Any = None
        self._lab = Lab(current_rig(), lambda _: self._at_hand, Admission(), self._path)

    def trial(self, case: Case) -> None:
        try:
            if "run" in case:
                return self._check_recorder(case)
            data = base64.b64decode(case["trace"])
            if len(data) % 4 == 0:  # some: to write a file takes long
                self._follow(data)
            self._read(loads(data, "run.jsonl"), len(data))
        except (CanopyError, RecorderError) as error:
            check_sentence(error)

    def close(self) -> None:
        self._log.setLevel(self._level)
        self._folder.cleanup()

    def _check_recorder(self, case: Case) -> None:
        """Check that the file opens with exactly the rounds that were not refused."""
        path = self._path.with_suffix(".jsonl.gz") if case["packed"] else self._path
        recorder = record(case, path)
        trace = load(path)
        rounds = len(trace.entries) + recorder.refused + recorder.dropped
        whole = trace.header.every == 1
        if rounds > trace.end.rounds or rounds < trace.end.rounds and whole or trace.end.note:
            raise BrokenError("A recording does not hold what was recorded.")
        if trace.end.reason == "unknown" and whole and trace.entries[-1].round.committed.tolist() != [1, 2]:
            raise BrokenError("A sound round behind what was refused was not recorded.")
        self._read(trace, rounds)

    def _follow(self, data: bytes) -> None:
        self._path.write_bytes(data)
        with closing(TraceTail(self._path)) as tail, suppress(TraceError):
            while tail.lines():
                pass

    def _read(self, trace: Trace, number: int) -> None:
        """List, show and export the trace as the page does, draw it as the lab does, and run it again."""
        library = Library([])
        library.recordings = {"x": Recording("x", trace)}
        json.dumps(library.summaries(), allow_nan=False).encode()
        run = RunLog.recorded("x", trace, library.comparison("x"))
        list(map(json.loads, run.all_lines()))
        if dumps(loads(dumps(trace))) != dumps(trace):
            raise BrokenError("What is written of a trace is not what was read.")
        if not 0 < sum(map(estimate_bytes, trace.lines)) < 2**40:
            raise BrokenError("It weighs nothing, or too much.")
        if number % SLOW_READERS == 0:
            self._at_hand = trace
            json.dumps(self._lab.acceptance({"run": "x"}), allow_nan=False)
        export(EXPORTS[number % len(EXPORTS)], run, number % (len(trace.entries) + 1))
        request_of(trace)
