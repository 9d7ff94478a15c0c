"""Recorded runs: the page lists them and opens with one, and they stand in a rig's place if there is no model."""

import json
import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

from engine.decoding.methods import METHODS
from engine.errors import RequestError, RigError, TraceError
from engine.lab.settings import Conditions
from engine.lab.speed import FASTER
from engine.machine.files import name_in_utf8
from engine.records import Precision, PromptRequest
from engine.trace import Header, Line, Piece, Trace, committed_ids, known_tau, load
from explorer.claims import PlainComparison, recorded_comparison
from explorer.rig import Source

if TYPE_CHECKING:
    from engine.lab.sweeping import Laboratory  # imports pydantic, which the first page does without

RECORDINGS = "recordings"  # the name of what stands in for a rig
MAX_CONCURRENT_RUNS = 8  # recordings that are shown in place of runs
LAB_RECORDING = "welcome"  # the recording that the lab predicts from until another is chosen

log = logging.getLogger("canopy")


class RecordingSummary(TypedDict):
    """How the page lists a recording. Its speed is that of the turns with plain decoding, if that was recorded too,
    else committed tokens over engine time: all stages of all rounds, in shared rounds with the waiting. ``won`` is its
    speed-up if it was faster than plain decoding."""

    name: str
    title: str
    note: str
    rounds: int
    method: str
    budget: int | None
    drafters: list[str]
    rig: str
    hardware: str
    recorded: str
    tau: float | None
    tokens_per_second: float
    won: str


@dataclass(frozen=True)
class Recording:
    """A recorded run under the name of its file."""

    name: str
    trace: Trace

    def summary(self, comparison: PlainComparison | None) -> RecordingSummary:
        """Describe the recording for the page's list. ``beside``: its comparison with plain decoding."""
        header, rounds = self.trace.header, self.trace.rounds
        tau, seconds = known_tau(header, rounds), sum(sum(round_.seconds.values()) for round_ in rounds)
        rate = round(len(committed_ids(rounds)) / seconds, 1) if seconds > 0 else 0.0
        speed = comparison.speed if comparison and not comparison.speed.withheld else None
        return {
            "name": self.name, "title": header.title or self.name, "note": header.note, "rounds": len(rounds),
            "method": header.request.method, "budget": header.budget, "drafters": list(header.drafters),
            "rig": header.rig, "hardware": header.hardware, "recorded": header.recorded,
            "tau": None if tau is None else round(tau, 2),
            "tokens_per_second": float(speed.speed) if speed else rate,
            "won": speed.times if speed and speed.outcome == FASTER else ""}


class Library:
    """Recordings by file name. Unreadable files are logged and skipped. The page opens with the first one."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.recordings: Mapping[str, Recording] = {
            recording.name: recording for path in paths for recording in _read(path)}

    def summaries(self) -> list[RecordingSummary]:
        return [recording.summary(self._comparison(recording.trace)) for recording in self.recordings.values()]

    def first(self) -> Recording | None:
        return next(iter(self.recordings.values()), None)

    def comparison(self, name: str) -> PlainComparison | None:
        """Return the comparison with the recording of plain decoding of the same prompt; None if there is none."""
        return self._comparison(self.recordings[name].trace) if name in self.recordings else None

    def _comparison(self, trace: Trace) -> PlainComparison | None:
        if not trace.header.drafters or not trace.header.recorded:
            return None
        comparable = _comparable(trace.header)
        plain = next((other.trace for other in self.recordings.values()
                      if not other.trace.header.drafters and _comparable(other.trace.header) == comparable), None)
        return recorded_comparison(trace, plain) if plain else None


def _comparable(header: Header) -> tuple[object, ...]:
    """Return what two runs need in common for a comparison of speeds: machine and prompt."""
    return (header.rig, header.hardware, header.dtype), (
        header.turns, header.prompt, header.request.prompt_ids, header.request.sampling)


def name_of(path: Path) -> str:
    """Return the name of a recording: its file name without ``.jsonl.gz``."""
    return name_in_utf8(path).removesuffix(".gz").removesuffix(".jsonl")


def _read(path: Path) -> list[Recording]:
    try:
        return [Recording(name_of(path), load(path))]
    except TraceError as error:
        log.warning("A recording is left out. %s", error)
        return []


def shipped(folder: Path, rig: str = "") -> list[Path]:
    """List the trace files of a folder: in the order of lessons-RIG.json, of lessons.json and of other rigs' lists, the
    others by name."""
    listed = sorted(folder.glob("lessons*.json"),
                    key=lambda path: (path.name != f"lessons-{rig}.json", len(path.name), path.name))
    names = [recording["name"] for path in listed for recording in json.loads(path.read_text("utf8"))]
    rank = {name: number for number, name in enumerate(names)}
    paths = sorted(path for path in folder.glob("*.jsonl*") if path.is_file() and not path.name.endswith(".part"))
    return sorted(paths, key=lambda path: rank.get(name_of(path), len(rank)))


@dataclass(frozen=True)
class RecordedRun:
    """A recording, shown as a run."""

    trace: Trace
    share: float = 1 / MAX_CONCURRENT_RUNS

    def lines(self) -> Generator[Line, None, None]:
        yield from self.trace.lines


class RecordedSource:
    """A source without a model: it answers with the recording of the same prompt. ``reason`` says why there is none."""

    name, hardware, good_at = RECORDINGS, "no model loaded", ""
    methods: Sequence[str] = tuple(METHODS)  # all of them, so that the page looks the same
    drafters: Sequence[str] = ()

    def __init__(self, library: Library, reason: str) -> None:
        self._library = library
        self.reason = reason

    def default_drafters(self, method: str) -> Sequence[str]:
        return ()

    def prepare(self, request: PromptRequest, interrupt: Callable[[], None] | None = None, *,
                cache_key: str | None = "") -> RecordedRun:
        """Choose the recording of the same prompt that is nearest: in method, else in drafting at all, then in
        budget."""
        def distance(trace: Trace) -> tuple[bool, bool, int]:
            recorded, plain = trace.header.request, not trace.header.drafters
            return recorded.method != request.method, plain, abs(recorded.budget - request.budget)

        traces = [recording.trace for recording in self._library.recordings.values()]
        candidates = [trace for trace in traces if (trace.header.turns, trace.header.prompt.strip()) == (
            request.turns, request.prompt.strip())]
        if not candidates:
            raise RequestError(f"{self.reason} Only recorded runs can be shown: pick one under Recordings, or run the "
                               "prompt of one.")
        return RecordedRun(min(candidates, key=distance))

    def close(self) -> None: ...


class NoInstruments:
    """See ``Instruments``, and ``Laboratory``. The source answers, but nothing can be measured with it: the lab shows
    what was measured before, and says why. ``opened_as`` is the name that the command line opens it by, if that is
    another."""

    precision = Precision("")

    def __init__(self, source: Source, reason: str, opened_as: str = "") -> None:
        self.source, self.reason = source, reason
        self.opened_as = opened_as or source.name
        self.conditions = Conditions(source.name, source.hardware, "")
        self.methods: Sequence[str] = tuple(name for name in source.methods if name in METHODS)
        self.drafters: Sequence[str] = tuple(source.drafters)

    @property
    def laboratory(self) -> "Laboratory":
        return self

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise RigError(self.reason)

    interleaved = measure_cost = measure_cost_roughly = what_if = doctor = measure = measure_concurrent = _refuse

    gains: Mapping[int, tuple[float, float]] = {}

    def missing_processors(self) -> float:
        return 0.0

    def twin(self, interrupt: Callable[[], None]) -> None: ...

    def known_cost(self, trace: Trace) -> None: ...

    def pieces(self, token_ids: Sequence[int]) -> Mapping[int, Piece]:
        return {}

    def text_pieces(self, token_ids: Sequence[int]) -> Sequence[Piece]:
        return ()


def recorded_rig(library: Library, reason: str) -> NoInstruments:
    """Wrap the recordings as a rig; ``reason`` says why there is no model."""
    return NoInstruments(RecordedSource(library, reason), reason)
