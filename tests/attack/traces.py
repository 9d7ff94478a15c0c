"""Hostile traces: read, and where they are taken, shown, replayed, exported, drawn, followed, by all that reads one.
And hostile calls of the recorder, whose file has to open with exactly the rounds that it took."""

import base64
import gzip
import json
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from engine.errors import CanopyError, TraceError
from engine.recorder import Recorder, RecorderError
from engine.trace import UPLOADED, Entry, Trace, dumps, held_bytes, load, loads
from engine.trace.reading import TraceTail
from explorer.comparison import ask_of
from explorer.export import EXPORTS, export
from explorer.lab.lab import Lab
from explorer.recordings import Lesson, Library
from explorer.run_queue import RunQueue
from explorer.runs import Run
from tests.attack.area import Area, BrokenError, Case, check_sentence
from tests.attack.mutations import bent, bent_bytes, bent_lines, odd
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_rigs import answering

LESSONS = Path(__file__).parents[2] / "assets" / "traces"
MAX_ROUNDS = 3  # of a recording that is bent: more are more of the same, and slower
MAX_BYTES = 60_000  # of such a recording
CALLS = 0.15  # of the cases are calls of the recorder
LIES = 0.02  # of the files have many lines that say nothing, or many members
NEEDED = {"tokens", "parents", "keep", "bonus"}  # of a round, by the recorder's signature


@cache
def recordings() -> tuple[list[bytes], ...]:
    """The lines of sound traces: the shipped ones, cut, and scripted ones of every way to decode."""
    shipped = [gzip.decompress(path.read_bytes()).splitlines() for path in sorted(LESSONS.glob("*.gz"))]
    scripted = [dumps(scripted_trace(method, budget)).splitlines() for method, budget in (
        ("joint", 6), ("merged", 5), ("routed", 3), ("autoregressive", 0), ("nanogpt", 3), ("nanogpt_ratio", 3))]
    cut = [[*lines[:1 + MAX_ROUNDS], lines[-1]] for lines in [*shipped, *scripted]]
    return tuple(lines for lines in cut if sum(map(len, lines)) < MAX_BYTES)


def hostile(random: Random, values: Sequence[Any] = ()) -> bytes:
    """A trace file."""
    data = written(random, values) if random.random() < 0.5 else b""
    if not data or random.random() < 0.3:
        data = bent_lines(data.splitlines() or random.choice(recordings()), random, values)
    if random.random() < 0.1:
        data = bent_bytes(data, random)
    if random.random() < LIES:
        return _padded(data, random)
    if random.random() < 0.15:
        data = gzip.compress(data, 1)
        data = bent_bytes(data, random) if random.random() < 0.5 else data
    return data


def _padded(data: bytes, random: Random) -> bytes:
    """The file with thousands of lines about refused rounds, or of gzip members that hold next to nothing."""
    line = random.choice((b'{"refused":7}', b'{"refused":{"index":-1}}', b'{"round":7}', b""))
    if random.random() < 0.5:
        first, *rest = data.split(b"\n")
        padded = b"\n".join([first, *[line] * random.choice((10, 5000)), *rest])
        return gzip.compress(padded, 1) if random.random() < 0.5 else padded
    member = gzip.compress(random.choice((b"", b"\n", line + b"\n")), 1, mtime=0)
    return gzip.compress(data, 1, mtime=0) + member * random.choice((1, 500, 17_000))


def calls(random: Random, values: Sequence[Any], sound: float = 0.5) -> Case:
    """What a loop hands to a recorder; values of the header and of rounds are bent where they are not ``sound``."""
    run: Any = {"prompt": random.choice(("Hi", "", "\0\u202e", "x" * 4000)), "prompt_ids": [1, 2], "title": "T",
                "method": random.choice(("ddtree", "merged", "their own", "", "__proto__", "constructor")), "note": "N",
                "engine": random.choice(("", "a loop")), "budget": 8, "context_limit": 99,
                "drafters": random.choice(([], ["a"], ["a", "b"], [""], ["<b>"] * 16)),
                "every": random.choice((1, 1, 2)),
                "sampling": {"temperature": 0.5, "top_k": 3, "top_p": 0.9, "seed": 1}}
    rounds: Any = [_parts(random) for _ in range(random.randrange(5))]
    run = run if random.random() < sound else bent(run, random, values)
    rounds = [parts if random.random() < sound else bent(parts, random, values) for parts in rounds]
    texts = {str(token): random.choice(("a", " b", "\n", "", "\0", "\u2028", "</script>", [226], [0], odd(
        random, values))) for token in range(random.randrange(9))}
    return {"run": run, "rounds": rounds, "texts": texts, "packed": random.random() < 0.5}


def _parts(random: Random) -> Any:
    """A round whose tree is one, of a shape that no method makes, with some of what a loop may say of it."""
    size = random.choice((1, 1, 2, 3, 9, 40))
    parents = [0, *(random.randrange(node) if random.random() < 0.7 else node - 1 for node in range(1, size))]
    keep = [random.randrange(size)]
    while keep[0]:
        keep.insert(0, parents[keep[0]])
    tokens = [random.randrange(60) for _ in range(size)]
    floats = [-random.expovariate(0.3) for _ in range(size)]
    extreme = [*floats[1:], random.choice((float("nan"), float("-inf"), 0.0, -1e38, 1e-40))]
    depth, rows, width = random.randrange(4), random.randrange(1, 3), random.randrange(5)
    cells = [[[random.randrange(rows)] * width] * rows] * depth
    draft = {"tokens": cells, "logprobs": [[[-1.5] * width] * rows] * depth, "follow": cells}
    more = {"choice": [random.randrange(-1, 60) for _ in range(size)], "drafters": [random.randrange(4)] * size,
            "node_logprobs": floats, "logprobs": extreme, "choice_logprobs": extreme, "offered": extreme,
            "processed": extreme, "entropy": floats, "gap": floats, "drafts": [draft] * random.randrange(3),
            "candidates": [{"tokens": tokens, "parents": parents, "logprobs": extreme}] * random.randrange(3),
            "seconds": {"draft": 0.001, "verify": 1e9, "__proto__": 1, "other": 0},
            "start": random.choice((0, 7, 2**30)), "trials": {"nodes": [size - 1], "chances": [0.5], "draws": [0.25]}}
    return {"tokens": tokens, "parents": parents, "keep": keep, "bonus": random.randrange(60),
            **{name: value for name, value in more.items() if random.random() < 0.7}}


def record(case: Case, path: Path) -> Recorder:
    """Hand the calls of a case to a recorder, and a sound round behind them."""
    run = case["run"] if isinstance(case["run"], dict) else {}
    with Recorder(path, **run, token_text=lambda token: case["texts"][str(token)]) as recorder:
        for parts in case["rounds"]:
            if isinstance(parts, dict) and set(parts) >= NEEDED:
                recorder.round(**{name: _array(value) for name, value in parts.items()})
        recorder.round(tokens=[1, 2], parents=[0, 0], keep=[0, 1], bonus=3)
    return recorder


def _array(value: Any) -> Any:
    """The array that {dtype, shape, data} may stand for."""
    with suppress(LookupError, TypeError, ValueError, AttributeError):
        return np.frombuffer(base64.b64decode(value["data"]), value["dtype"]).reshape(value["shape"])
    return value


def written(random: Random, values: Sequence[Any]) -> bytes:
    """What a recorder writes, of this version or an older one; it may be cut off."""
    with tempfile.TemporaryDirectory() as folder, suppress(RecorderError):
        path = Path(folder, "run.jsonl")
        record(calls(random, values, 0.9), path)
        data = path.read_bytes()
        if random.random() < 0.3:
            data = data.replace(b'"drafters":', b'"heads":').replace(b'"canopy_trace":5', b'"canopy_trace":4', 1)
        lines = data.splitlines(keepends=True)
        return b"".join(lines[:random.choice((len(lines), len(lines), 2))])
    return b""


class Traces(Area):
    """Readers are those of the page, the lab and the command line."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name, "run.jsonl")
        self._at_hand: Trace | None = None
        self._lab = Lab(answering(), lambda _: self._at_hand, RunQueue(), self._path)  # type: ignore[arg-type, return-value]

    def case(self, random: Random, values: Sequence[Any]) -> Case:
        """A file as base64, so that it can be kept, or calls of the recorder."""
        if random.random() < CALLS:
            return calls(random, values)
        return {"trace": base64.b64encode(hostile(random, values)).decode()}

    def trial(self, case: Case) -> None:
        if "run" in case:
            self._recorded(case)
            return
        data = base64.b64decode(case["trace"])
        try:
            trace = loads(data, "run.jsonl", UPLOADED)
        except TraceError as error:
            check_sentence(error)
            return
        finally:
            if len(data) % 4 == 0:  # some: to write a file takes long
                self._follow(data)
        for read in (self._shown, self._exported, self._drawn, self._held):
            try:
                read(trace, Random(len(data)))
            except CanopyError as error:
                check_sentence(error)

    def _recorded(self, case: Case) -> None:
        """Whatever is refused, the file opens with exactly the other rounds."""
        path = self._path.with_suffix(".jsonl.gz") if case["packed"] else self._path
        try:
            recorder = record(case, path)
        except RecorderError as error:
            check_sentence(error)
            return
        trace = load(path)
        rounds = len(trace.entries) + recorder.refused + recorder.dropped
        if rounds > trace.end.rounds or rounds < trace.end.rounds and trace.header.every == 1 or trace.end.said:
            raise BrokenError("A recording does not hold what was recorded.")
        if trace.end.reason == "unknown" and trace.header.every == 1 and (
                trace.entries[-1].round.committed.tolist() != [1, 2]):
            raise BrokenError("A sound round behind what was refused was not recorded.")

    def close(self) -> None:
        self._folder.cleanup()

    def _follow(self, data: bytes) -> None:
        self._path.write_bytes(data)
        tail = TraceTail(self._path)
        try:
            while tail.lines():
                pass
        except TraceError as error:
            check_sentence(error)
        finally:
            tail.close()

    def _shown(self, trace: Trace, random: Random) -> None:
        """As the page shows it: strict JSON, summed up in the list of recordings."""
        library = Library([])
        library.lessons = {"x": Lesson("x", trace)}
        list(map(json.loads, Run.recorded("x", trace, library.comparison("x")).whole()))
        json.dumps(library.summaries(), allow_nan=False).encode()
        again = loads(dumps(trace))
        if dumps(again) != dumps(trace):
            raise BrokenError("What is written of a trace is not what was read.")

    def _exported(self, trace: Trace, random: Random) -> None:
        """As a file of some kind, at times of a round that is not there."""
        kind = random.choices(list(EXPORTS), [1 if name == "replay" else 4 for name in EXPORTS])[0]  # it takes longer
        number = random.choice((0, len(trace.entries) - 1, len(trace.entries)))
        export(kind, Run.recorded("run", trace), trace, number)

    def _drawn(self, trace: Trace, random: Random) -> None:
        """As the lab draws it."""
        if random.random() < 0.7:  # it takes ten times as long as all else
            return
        self._at_hand = trace
        json.dumps(self._lab.acceptance({"run": "x"}), allow_nan=False)

    def _held(self, trace: Trace, random: Random) -> None:
        """As it is weighed, and asked again."""
        entries: list[Entry] = list(trace.entries)
        if not 0 < held_bytes(trace.header) + sum(map(held_bytes, entries)) < 2**40:
            raise BrokenError("It weighs nothing, or too much.")
        ask_of(trace)
