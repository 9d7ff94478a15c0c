"""Hostile traces: read, and where they are taken, shown, replayed, exported, drawn, followed, by all that reads one.
And hostile calls of the recorder, whose file has to open with exactly the rounds that it took."""

import base64
import gzip
import json
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hypothesis.strategies import SearchStrategy

from engine.errors import CanopyError, TraceError
from engine.recorder import Recorder, RecorderError
from engine.trace import UPLOADED, Entry, Trace, dumps, held_bytes, load, loads
from engine.trace.reading import TraceTail
from explorer.comparison import ask_of
from explorer.export import EXPORTS, export
from explorer.lab.service import LabService
from explorer.recordings import Lesson, Library
from explorer.run_queue import RunQueue
from explorer.view import packed
from tests.attack.area import BrokenError, Case
from tests.attack.mutations import bent, bent_bytes, bent_lines, json_values, odd
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_rigs import answering

LESSONS = Path(__file__).parents[2] / "assets" / "traces"
MOST_ROUNDS = 3  # of a recording that is bent: more are more of the same, and slower
MOST_BYTES = 60_000  # of such a recording
CALLS = 0.15  # of the cases are calls of the recorder
LIES = 0.02  # of the files have many lines that say nothing, or many members
NEEDED = {"tokens", "parents", "keep", "bonus"}  # of a round, by the recorder's signature


@cache
def recordings() -> tuple[list[bytes], ...]:
    """The lines of sound traces: the shipped ones, cut, and scripted ones of every way to decode."""
    shipped = [gzip.decompress(path.read_bytes()).splitlines() for path in sorted(LESSONS.glob("*.gz"))]
    scripted = [dumps(scripted_trace(method, budget)).splitlines() for method, budget in (
        ("joint", 6), ("merged", 5), ("routed", 3), ("autoregressive", 0), ("nanogpt", 3), ("nanogpt_ratio", 3))]
    cut = [[*lines[:1 + MOST_ROUNDS], lines[-1]] for lines in [*shipped, *scripted]]
    return tuple(lines for lines in cut if sum(map(len, lines)) < MOST_BYTES)


def array(random: Random, kind: str, shape: tuple[int, ...], low: int, high: int) -> dict[str, Any]:
    """Numbers, as a trace has them."""
    numbers = np.random.default_rng(random.randrange(2**32))
    made = numbers.integers(low, high, shape) if kind == "<i4" else -np.abs(numbers.normal(0, 3, shape))
    if kind == "<f4" and made.size and random.random() < 0.3:
        made.flat[random.randrange(made.size)] = random.choice((np.nan, -np.inf, np.inf, 0.0, -1e38, 1e-40))
    data = np.asarray(made, kind).tobytes()
    return {"dtype": kind, "shape": list(shape), "data": base64.b64encode(data).decode()}


def generated(random: Random) -> bytes:
    """A trace from nothing, sound in most of what it says and extreme in the rest."""
    rounds = [_round(random, number) for number in range(random.randrange(4))]
    pieces = {str(random.randrange(60)): random.choice(("a", " b", "\n", "", "\0", "\u2028", "</script>", [226], [0]))
              for _ in range(random.randrange(8))}
    header = {"prompt": random.choice(("Hi", "", "\0\u202e", "x" * 4000)), "engine": random.choice(("", "an engine")),
              "heads": random.choice(([], ["a"], ["a", "b"], [""], ["<b>"] * 16)), "pieces": pieces,
              "every": random.choice((1, 1, 7)), "request": {"method": random.choice(
                  ("ddtree", "merged", "autoregressive", "their own", "", "__proto__", "constructor"))}}
    if random.random() < 0.2:
        name = random.choice(("title", "note", "hardware", "dtype", "recorded", "turns", "context_limit"))
        header[name] = odd(random)
    end = {"reason": random.choice(("stop", "length", "", "x")), "rounds": random.randrange(9),
           "seconds": random.choice((0, 1.5, 1e11))}
    lines: list[Any] = [{"canopy_trace": 4, "header": header}, *rounds, {"end": end}]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines[:random.choice((len(lines), 99, 2))])


def _round(random: Random, number: int) -> dict[str, Any]:
    """A round whose tree is one, of a shape that no method makes."""
    size = random.choice((1, 1, 2, 3, 9, 40))
    parents = [0, *(random.randrange(node) if random.random() < 0.7 else node - 1 for node in range(1, size))]
    keep = [random.randrange(size)]
    while keep[0]:
        keep.insert(0, parents[keep[0]])
    tree = {"tokens": array(random, "<i4", (size,), 0, 60), "parents": _packed(parents), **_some(random, {
        "logprobs": array(random, "<f4", (size,), 0, 0), "heads": array(random, "<i4", (size,), 0, 4)})}
    said = {name: array(random, "<f4", (size,), 0, 0)
            for name in ("logprobs", "entropy", "gap", "offered", "processed")}
    shape = (random.randrange(4), random.randrange(1, 3), random.randrange(5))
    draft = {"tokens": array(random, "<i4", shape, 0, 60), "logprobs": array(random, "<f4", shape, 0, 0),
             "follow": array(random, "<i4", shape, 0, 1)}
    more = {"verification": _some(random, {"choice": array(random, "<i4", (size,), -1, 60), **said}),
            "drafts": [draft] * random.randrange(3), "candidates": [tree] * random.randrange(3),
            "seconds": _some(random, {"draft": 0.001, "verify": 1e9, "__proto__": 1, "other": 0})}
    made = {"index": random.choice((number, number, 0, 7, 2**31 - 1)), "start": random.choice((number, 0, 2**30)),
            "tree": tree, "acceptance": {"keep": _packed(keep), "bonus": random.randrange(60)}, **_some(random, more)}
    return {"round": made, "pieces": {}, "elapsed_seconds": random.choice((number, 0, 1e10))}


def _packed(numbers: list[int]) -> dict[str, Any]:
    return {"dtype": "<i4", "shape": [len(numbers)], "data": base64.b64encode(np.asarray(
        numbers, "<i4").tobytes()).decode()}


def _some(random: Random, parts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if random.random() < 0.8}


def hostile(random: Random, values: Sequence[Any] = ()) -> bytes:
    """A trace file."""
    if random.random() < 0.5:
        data = generated(random)
        if random.random() < 0.3:
            data = bent_lines(data.splitlines(), random, values)
    else:
        data = bent_lines(random.choice(recordings()), random, values)
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


def calls(random: Random, values: Sequence[Any]) -> Case:
    """What a loop hands to a recorder, with a few of its values bent."""
    run: Any = {"prompt": "Hi", "prompt_ids": [1, 2], "method": "ddtree", "engine": "a loop", "title": "T", "note": "N",
                "budget": 8, "context_limit": 99, "drafters": ["a", "b"], "every": random.choice((1, 1, 2)),
                "sampling": {"temperature": 0.5, "top_k": 3, "top_p": 0.9, "seed": 1}}
    rounds: Any = [_call(random) for _ in range(random.randrange(1, 5))]
    run = bent(run, random, values) if random.random() < 0.5 else run
    rounds = [bent(parts, random, values) if random.random() < 0.5 else parts for parts in rounds]
    texts = {str(token): odd(random, values) for token in range(random.randrange(6))}
    return {"run": run, "rounds": rounds, "texts": texts, "packed": random.random() < 0.5}


def _call(random: Random) -> Any:
    """A sound round, as a loop has it."""
    size = random.choice((1, 2, 5, 30))
    chain = list(range(random.randrange(1, size + 1)))
    floats = [-random.random() for _ in range(size)]
    more = {"choice": [3] * size, "drafters": [1] * size, "node_logprobs": floats, "choice_logprobs": floats,
            "entropy": [1.5] * size, "gap": [0.5] * size, "offered": floats, "seconds": {"draft": 0.1, "verify": 0.2},
            "drafts": [{"tokens": [[1, 2], [3, 4]], "logprobs": [[-1.0, -2.0], [-1.0, -2.0]]}], "start": 7,
            "candidates": [{"tokens": [1, 2], "parents": [-1, 0], "logprobs": [0.0, -1.0]}],
            "trials": {"nodes": [size - 1], "chances": [0.5], "draws": [0.25]}}
    return {"tokens": list(range(size)), "parents": [max(0, node - 1) for node in range(size)], "keep": chain,
            "bonus": 4, **_some(random, more)}


def sentence(error: Exception) -> None:
    """BrokenError where what was said is not one sentence."""
    said = str(error)
    if not said.endswith(".") or "\n" in said or len(said) > 600 or not said.isprintable():
        raise BrokenError(f"No sentence: {said[:200]!r}")


class Traces:
    """See ``Area``. Readers are those of the page, the lab and the command line."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name, "run.jsonl")
        self._at_hand: Trace | None = None
        self._lab = LabService(answering(), lambda _: self._at_hand, RunQueue(), self._path)  # type: ignore[arg-type, return-value]
        self.taken = 0

    def values(self) -> SearchStrategy[Any]:
        return json_values()

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
            sentence(error)
            return
        finally:
            if len(data) % 4 == 0:  # some: to write a file takes long
                self._follow(data)
        self.taken += 1
        for read in (self._shown, self._exported, self._drawn, self._held):
            try:
                read(trace, Random(len(data)))
            except CanopyError as error:
                sentence(error)

    def _recorded(self, case: Case) -> None:
        """Whatever is refused, the file opens with exactly the other rounds."""
        path = self._path.with_suffix(".jsonl.gz") if case["packed"] else self._path
        run = case["run"] if isinstance(case["run"], dict) else {}
        try:
            recorder = Recorder(path, **run, token_text=lambda token: case["texts"][str(token)])
        except RecorderError as error:
            sentence(error)
            return
        with recorder:
            for parts in case["rounds"]:
                if isinstance(parts, dict) and set(parts) >= NEEDED:
                    recorder.round(**parts)
        trace = load(path)
        taken = len(trace.entries) + recorder.refused + recorder.dropped
        if taken > trace.end.rounds or taken < trace.end.rounds and trace.header.every == 1 or trace.end.said:
            raise BrokenError("A recording does not hold what was recorded.")

    def close(self) -> None:
        """Enough of them have to be taken, or nothing was shown of the readers."""
        self._folder.cleanup()
        print(f"{self.taken} traces were taken")

    def _follow(self, data: bytes) -> None:
        self._path.write_bytes(data)
        tail = TraceTail(self._path)
        try:
            while tail.lines():
                pass
        except TraceError as error:
            sentence(error)
        finally:
            tail.close()

    def _shown(self, trace: Trace, random: Random) -> None:
        """As the page shows it: strict JSON, summed up in the list of recordings."""
        library = Library([])
        library.lessons = {"x": Lesson("x", trace)}
        for value in (library.compared_with_plain("x", trace), library.summaries(), json.loads(packed(
                library.compared_with_plain("x", trace)))):
            json.dumps(value, allow_nan=False).encode()
        again = loads(dumps(trace))
        if dumps(again) != dumps(trace):
            raise BrokenError("What is written of a trace is not what was read.")

    def _exported(self, trace: Trace, random: Random) -> None:
        """As a file of some kind, at times of a round that is not there."""
        kind = random.choices(list(EXPORTS), [4, 4, 2, 4, 1])[0]  # some take longer
        export(kind, "run", trace, random.choice((0, len(trace.entries) - 1, len(trace.entries))))

    def _drawn(self, trace: Trace, random: Random) -> None:
        """As the lab draws it."""
        if random.random() < 0.7:  # it takes ten times as long as all else
            return
        self._at_hand = trace
        json.dumps(self._lab.shapes({"run": "x"}), allow_nan=False)

    def _held(self, trace: Trace, random: Random) -> None:
        """As it is weighed, and asked again."""
        entries: list[Entry] = list(trace.entries)
        if not 0 < held_bytes(trace.header) + sum(map(held_bytes, entries)) < 2**40:
            raise BrokenError("It weighs nothing, or too much.")
        ask_of(trace)
