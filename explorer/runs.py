"""Live runs: as many at once as the machine has room for, streamed as stage values at a rate that browsers can follow,
remembered for export and links."""

import logging
from collections import OrderedDict, deque
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from threading import Lock
from time import perf_counter, sleep
from typing import Any
from uuid import uuid4

from engine.errors import CanopyError, RequestError
from engine.records import PromptRequest, Round
from engine.requests.rig_names import usual_setting
from engine.trace import End, Entry, Header, Line, Piece, Trace, held_bytes
from explorer.rig import CurrentRig, PreparedRun
from explorer.run_queue import RunQueue
from explorer.security.askers import Asker, asker
from explorer.view import View, blank_view, closed_view, entry_view, opened_view, repetition_view

MAX_BYTES = 256 * 2**20  # of remembered runs; the oldest is forgotten first
SECONDS_BETWEEN_LOOKS = 0.2  # while a run waits for the rig, or for its next round
SECONDS_BETWEEN_VIEWS = 1 / 30  # a round that is held back waits for the next one, so this has to be short
MAX_NEW = 256  # rounds of one update
MIN_LOOK_TOKENS, LOOK_SHARE = 16, 0.25  # new ones, and of the text, after which it is looked for a loop again
MAX_VIEWS = 80  # a second, of all runs: each update is the server's work, which rounds have to wait for

log = logging.getLogger("canopy")


@dataclass(eq=False)
class KeptRun:
    """What is remembered of a run: its lines and their size, and what its comparison came to so far (``claims``)."""

    lines: list[Line] = field(default_factory=list)
    bytes: int = 0
    comparison: View | None = None


class Runs:
    """The latest runs by their ids, which cannot be guessed: a person with the link to a run may see it."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, KeptRun] = OrderedDict()
        self._lock = Lock()

    def begin(self, run: str) -> None:
        """Remember a run, whose lines are to be added as they happen."""
        with self._lock:
            self._kept[run] = KeptRun()
            self._kept.move_to_end(run)

    def add(self, run: str, *lines: Line) -> None:
        """Add lines to a run that was begun. The oldest other runs are forgotten where memory for all is short;
        RequestError if this run alone needs more."""
        with self._lock:
            if (kept := self._kept.get(run)) is None:
                return
            wanted = kept.bytes + sum(map(held_bytes, lines))
            if wanted > self._most_bytes:
                raise RequestError(f"The run holds more than {self._most_bytes // 2**20} MiB of rounds, which is the "
                                   "most that is remembered; ask for fewer tokens or a smaller node budget.")
            kept.lines.extend(lines)
            kept.bytes = wanted
            while sum(other.bytes for other in self._kept.values()) > self._most_bytes:
                del self._kept[next(name for name in self._kept if name != run)]

    def note(self, run: str, comparison: View) -> None:
        with self._lock:
            if run in self._kept:
                self._kept[run].comparison = comparison

    def comparison(self, run: str) -> View | None:
        with self._lock:
            return self._kept[run].comparison if run in self._kept else None

    def trace(self, run: str) -> Trace | None:
        """The run as a trace, closed where it stopped; None for an unknown id or a run without a round."""
        with self._lock:
            lines = list(self._kept[run].lines) if run in self._kept else []
        entries = tuple(line for line in lines if isinstance(line, Entry))
        if not entries or not isinstance(lines[0], Header):
            return None
        end = lines[-1] if isinstance(lines[-1], End) else End("stopped", len(entries), entries[-1].elapsed_seconds)
        return Trace(lines[0], entries, end)

    def known(self, run: str) -> Trace:
        """The same; RequestError if the run is gone."""
        trace = self.trace(run)
        if trace is None:
            raise RequestError(f"There is no run {run[:40]!r} any more; the server keeps the latest, up to "
                               f"{MAX_BYTES // 2**20} MiB of them.")
        return trace


class Stream:
    """Runs a ``PromptRequest`` on the rig that answers, and yields what the stage is to show."""

    def __init__(self, rig: CurrentRig, runs: Runs, queue: RunQueue) -> None:
        self._rig = rig
        self._runs = runs
        self._queue = queue

    def usual_setting(self) -> dict[str, Any]:
        """What a run takes that names no method or budget, as far as the rig that answers says it."""
        return usual_setting(self._rig.instruments.opened_as)

    def watch(self, ask: PromptRequest) -> Generator[View, None, None]:
        """Stage values of a new run, each with its latest rounds, the last with its end or its error. It waits for the
        page's first rig, then for its turn.

        Closing it ends the run.
        """
        run, who = uuid4().hex[:12], asker()
        try:
            yield from _waiting_views(run, self._coming(), who)
            prepared = self._rig.source.prepare(ask)
            with self._queue.place(who.address, prepared.share, run) as place:
                yield from _waiting_views(run, place.sentences(), who)
                yield from self._run(run, prepared, who)
        except CanopyError as error:
            yield blank_view(run, "error", str(error))

    def _run(self, run: str, prepared: PreparedRun, who: Asker) -> Iterator[View]:
        shown, window, corrected = 0.0, Window(run), False
        waiting = blank_view(run, "running", "Reading the prompt …")
        yield waiting
        try:
            with closing(self._lines(prepared)) as happening:
                for line in happening:
                    who.check()
                    if line is None:
                        yield window.value() if window.view["header"] else waiting
                        continue
                    if isinstance(line, Header):
                        if corrected := bool(window.view["header"]):  # the same run, told anew at its end
                            window = Window(f"{run}-told")
                        self._runs.begin(window.view["run"])
                    elif isinstance(line, End) and corrected:
                        yield window.value()  # as a run in progress, so that the stage shows its last round
                    self._runs.add(window.view["run"], without_others(line))
                    window.add(line)
                    if perf_counter() - shown >= self._pause() and not isinstance(line, End):
                        yield window.value()
                        shown = perf_counter()
        except CanopyError as error:
            window.fail(str(error))
        except Exception as error:
            log.exception("The run %s failed.", run)
            window.fail(f"The run ended with an internal error ({type(error).__name__}); the rounds so far are kept, "
                        f"and the server's log has the details. Other runs still work.")
        if window.view["state"] == "empty":
            window.fail("The run wrote nothing; try another prompt.")
        yield window.value()

    def _pause(self) -> float:
        """Seconds between two updates: the more runs, the fewer for each."""
        return max(SECONDS_BETWEEN_VIEWS, self._queue.begun() / MAX_VIEWS)

    def _lines(self, prepared: PreparedRun) -> Generator[Line | None, None, None]:
        looked = perf_counter()
        for line in prepared.lines():
            if line is None and perf_counter() - looked < SECONDS_BETWEEN_LOOKS:
                continue
            looked = perf_counter()
            yield replace(line, note=f"{self._rig.note} {line.note}".strip()) if isinstance(line, Header) else line

    def _coming(self) -> Iterator[str]:
        """Why a run waits for the page's first rig, some times a second, until that is there."""
        while sentence := self._rig.waiting():
            yield sentence
            sleep(SECONDS_BETWEEN_LOOKS)


def _waiting_views(run: str, sentences: Iterator[str], who: Asker) -> Iterator[View]:
    """Stage values of a run that waits, as the sentences say, each of them once."""
    shown = ""
    for sentence in sentences:
        who.check()
        if sentence != shown:
            yield blank_view(run, "queued", sentence)
            shown = sentence


class Window:
    """A growing run as stage values, each with the new rounds alone, so that an update costs the same at the end of a
    long text as at its beginning. The rounds of the previous update are sent again: browsers may skip one when they are
    busy. If there are more new rounds than ``MAX_NEW``, browsers ask for those before."""

    def __init__(self, run: str) -> None:
        self.view = blank_view(run)
        self._new: deque[Entry] = deque(maxlen=MAX_NEW)
        self._latest, self._shown = list[View](), list[View]()
        self._header: Header | None = None
        self._rounds, self._pieces = list[Round](), dict[int, Piece]()
        self._tokens = self._looked = 0

    def add(self, line: Line) -> None:
        if isinstance(line, Entry):
            self._new.append(line)
            self._rounds.append(line.round)
            self._pieces |= line.pieces
            self._tokens += len(line.round.acceptance.keep)
        elif isinstance(line, Header):
            self._header, self._pieces = line, dict(line.pieces)
            self.view = opened_view(self.view, line)
        else:
            self.view = closed_view(self.view, line)
        due = self._looked + max(MIN_LOOK_TOKENS, LOOK_SHARE * self._looked)
        if self._header and (self._tokens >= due or isinstance(line, End)):
            self._looked = self._tokens
            self.view["repetition"] = repetition_view(self._header, self._rounds, self._pieces)

    def fail(self, message: str) -> None:
        self.view = {**self.view, "state": "error", "message": message}

    def value(self) -> View:
        """The stage value; ``from`` is the index of the first of its rounds."""
        if new := list(map(entry_view, self._new)):
            self._shown = new if len(new) == MAX_NEW else self._latest + new  # where so many are new, some lie between
            self._latest = new
            self._new.clear()
        return {**self.view, "from": len(self._rounds) - len(self._shown), "rounds": self._shown}


def without_others(line: Line) -> Line:
    """The line without anything of other people's runs: what is kept, exported and linked."""
    return replace(line, shared=None) if isinstance(line, Entry) else line
