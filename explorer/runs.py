"""Runs as the server holds them: a thread adds their lines, any number of readers follow them. As many at once as the
machine has room for, the latest remembered for export and links."""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic, perf_counter, sleep
from uuid import uuid4

from engine.errors import CancellationError, CanopyError, RequestError
from engine.records import PromptRequest, Round
from engine.requests.rig_names import UsualSetting, usual_setting
from engine.trace import End, Entry, Header, Line, Piece, Trace, encode_record, held_bytes
from explorer.claims import PlainComparison
from explorer.lines import About, State, StateLine, about, encoded, encoded_within, remark, repetition
from explorer.rig import CurrentRig, PreparedRun
from explorer.run_queue import WAITING_ROOM, RunQueue
from explorer.security.askers import Asker, asker
from explorer.view import View, blank_view, closed_view, entry_view, opened_view, repetition_view

MAX_BYTES = 256 * 2**20  # of remembered runs; the oldest is forgotten first
MAX_READERS = 32  # of one run
ENCODERS = ThreadPoolExecutor(2, "encoder")  # for all readers: encoding is work that rounds have to wait for
MAX_CHUNK_BYTES = 2**18  # of lines; a single line may be longer
SECONDS_BETWEEN_LOOKS = 0.2  # while a run waits for the rig, or for its next round
SECONDS_BETWEEN_CHUNKS = 1 / 30  # of a run in progress
MAX_CHUNKS_PER_SECOND = 80  # of all runs in progress
LAPSE_SECONDS = 10.0  # that a run in progress goes on without a reader
MIN_LOOK_TOKENS, LOOK_SHARE = 16, 0.25  # new ones, and of the text, after which it is looked for a loop again
READING, STOPPED = "Reading the prompt …", "It was stopped."
ENDED = ("stopped", "done", "error")
SECONDS_BETWEEN_VIEWS = 1 / 30  # a round that is held back waits for the next one, so this has to be short
MAX_NEW = 256  # rounds of one update
MAX_VIEWS = 80  # a second, of all runs: each update is the server's work, which rounds have to wait for

log = logging.getLogger("canopy")


@dataclass(eq=False)
class Run:
    """A run: its lines so far, how it stands, what is said about it, and who reads it. One thread adds to it while
    others read."""

    id: str
    address: str = ""
    lines: list[Line] = field(default_factory=list)
    size: int = 0  # in bytes of memory, about
    about: About = field(default_factory=About)

    def __post_init__(self) -> None:
        self.state_line: StateLine = {"state": "running", "run": self.id, "message": READING}
        self._readers = list[Callable[[], object]]()  # each is called when there is more
        self._left = monotonic()  # when the last reader left
        self._stopped = False
        self._tokens = self._looked = 0

    @classmethod
    def recorded(cls, name: str, trace: Trace, comparison: PlainComparison | None = None) -> "Run":
        """A run that is over."""
        run = cls(name)
        for line in trace.lines:
            run.add(line)
        run.note(comparison)
        run.end()
        return run

    @property
    def over(self) -> bool:
        return self.state_line["state"] in ENDED

    @property
    def readers(self) -> int:
        return len(self._readers)

    def add(self, line: Line) -> None:
        """Add its next line. A second header begins the run anew."""
        self.lines.append(line)
        self.size += held_bytes(line)
        if isinstance(line, Header):
            self.about, self._tokens, self._looked = about(line), 0, 0
        elif isinstance(line, Entry):
            self._tokens += len(line.round.acceptance.keep)
        elif said := remark(line):
            self.about = {**self.about, "remark": said}
        due = self._looked + max(MIN_LOOK_TOKENS, LOOK_SHARE * self._looked)
        if self._tokens >= due or isinstance(line, End):
            self._looked = self._tokens
            if (trace := self.trace()) and (found := repetition(trace)):
                self.about = {**self.about, "repetition": found}
        self._tell()

    def note(self, comparison: PlainComparison | None) -> None:
        """Remember what its comparison with plain decoding came to so far."""
        if comparison:
            self.about = {**self.about, "comparison": comparison}

    def say(self, state: State, message: str = "") -> None:
        """Change how it stands."""
        self.state_line = {"state": state, "run": self.id, "message": message}
        self._tell()

    def end(self, failure: str = "") -> None:
        """It is over: as its last line says, or with a sentence on why it failed. Of other people's runs nothing is
        kept."""
        lines = [replace(line, shared=None) if isinstance(line, Entry) else line for line in self.lines]
        if lines and isinstance(last := lines[-1], Entry):
            lines.append(End("stopped", sum(isinstance(line, Entry) for line in lines), last.elapsed_seconds))
        self.lines = lines
        ended = lines[-1].reason if lines and isinstance(lines[-1], End) else "stopped"
        self.say("error" if failure else "stopped" if ended in ("stopped", "cut") else "done", failure)

    def stop(self) -> None:
        """End it, soon."""
        self._stopped = True

    def check(self) -> None:
        """CancellationError if it was stopped, or if nobody has read it for a while."""
        if self._stopped or not self._readers and monotonic() - self._left > LAPSE_SECONDS:
            raise CancellationError(STOPPED)

    def trace(self) -> Trace | None:
        """The run as a trace, closed where it stands; None without a round."""
        lines = list(self.lines)
        begin = max((place for place, line in enumerate(lines) if isinstance(line, Header)), default=len(lines))
        entries = tuple(line for line in lines[begin:] if isinstance(line, Entry))
        if not entries:
            return None
        end = lines[-1] if isinstance(lines[-1], End) else End("stopped", len(entries), entries[-1].elapsed_seconds)
        return Trace(lines[begin], entries, end)  # type: ignore[arg-type]

    @contextmanager
    def _reading(self, tell: Callable[[], object]) -> Iterator[None]:
        self._readers.append(tell)
        try:
            yield
        finally:
            self._readers.remove(tell)
            self._left = monotonic()

    def _tell(self) -> None:
        for tell in list(self._readers):
            tell()

    def news(self, pause: Callable[[], float]) -> Iterator[bool]:
        """Whether there was more, some times a second, until it is over."""
        wake, more = Event(), True
        with self._reading(wake.set):
            while True:
                over = self.over
                yield more
                if over:
                    return
                sleep(pause())
                more = wake.wait(1.0)
                wake.clear()

    async def follow(self, first: int, pause: Callable[[], float]) -> AsyncIterator[bytes]:
        """Its lines from that one on, as they come, until it is over, with a state line before and after them.
        ``pause`` says how long to gather lines that come one by one."""
        wake, loop = asyncio.Event(), asyncio.get_running_loop()
        said, known = None, None
        with self._reading(partial(loop.call_soon_threadsafe, wake.set)):
            while True:
                wake.clear()
                over, state, latest = self.over, self.state_line, self.about  # before the lines, which are then all
                if said is None or state != said and not over:
                    yield encoded(said := state)
                fresh = self.lines[first:]
                if fresh:
                    chunk, count = await loop.run_in_executor(ENCODERS, encoded_within, fresh, MAX_CHUNK_BYTES)
                    first += count
                    yield chunk
                if latest is not known and self.lines:
                    known = latest
                    yield encoded({"about": latest})
                if fresh and count < len(fresh):
                    continue
                if over:
                    yield encoded(state)
                    return
                await asyncio.sleep(pause() if fresh else 0)
                await wake.wait()


class Runs:
    """Runs in progress and the latest others by their ids, which cannot be guessed: a person with the link to a run may
    see it."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, Run] = OrderedDict()
        self._lock = Lock()

    def begin(self, run: Run) -> Run:
        """Remember a run, whose lines are to be added as they happen. RequestError if too many are in progress."""
        with self._lock:
            if sum(not other.over for other in self._kept.values()) >= WAITING_ROOM:
                raise RequestError(f"{WAITING_ROOM} runs are in progress or wait, which is the most; try again when "
                                   "one has ended.")
            self._kept[run.id] = run
            self._kept.move_to_end(run.id)
        return run

    def add(self, run: Run, *lines: Line) -> None:
        """Add lines to a run. The oldest other runs are forgotten where memory for all is short; RequestError if this
        run alone needs more."""
        if run.size + sum(map(held_bytes, lines)) > self._most_bytes:
            raise RequestError(f"The run holds more than {self._most_bytes // 2**20} MiB of rounds, which is the "
                               "most that is remembered; ask for fewer tokens or a smaller node budget.")
        for line in lines:
            run.add(line)
        with self._lock:
            while sum(other.size for other in self._kept.values()) > self._most_bytes:
                del self._kept[next(name for name in self._kept if name != run.id)]

    def find(self, name: str) -> Run:
        """The run of that id; RequestError if it is gone."""
        with self._lock:
            if (run := self._kept.get(name)) is None:
                raise RequestError(f"There is no run {name[:40]!r} any more; the server keeps the latest, up to "
                                   f"{self._most_bytes // 2**20} MiB of them.")
            return run

    def trace(self, name: str) -> Trace | None:
        """The run as a trace, closed where it stopped; None for an unknown id or a run without a round."""
        with self._lock:
            run = self._kept.get(name)
        return run.trace() if run else None

    def known(self, name: str) -> Trace:
        """The same; RequestError if the run is gone, or has no round."""
        if (trace := self.find(name).trace()) is None:
            raise RequestError(f"The run {name[:40]!r} has no round yet.")
        return trace

    def note(self, name: str, comparison: PlainComparison) -> None:
        with self._lock:
            if run := self._kept.get(name):
                run.note(comparison)

    def comparison(self, name: str) -> View | None:
        with self._lock:
            run = self._kept.get(name)
        found = run.about.get("comparison") if run else None
        return encode_record(found) if found else None


class Runner:
    """Starts runs on the rig that answers."""

    def __init__(self, rig: CurrentRig, runs: Runs, queue: RunQueue) -> None:
        self._rig = rig
        self._runs = runs
        self._queue = queue

    def usual_setting(self) -> UsualSetting:
        """What a run takes that names no method or budget, as far as the rig that answers says it."""
        return usual_setting(self._rig.instruments.opened_as)

    def pause(self) -> float:
        """Seconds between two chunks of lines: the more runs, the fewer for each."""
        return max(SECONDS_BETWEEN_CHUNKS, self._queue.begun() / MAX_CHUNKS_PER_SECOND)

    def start(self, ask: PromptRequest, address: str = "") -> Run:
        """A new run, which waits for the page's first rig, then for its turn. RequestError if too many do."""
        run = self._runs.begin(Run(uuid4().hex[:12], address))
        Thread(target=self._work, args=(run, ask), name=f"run {run.id}", daemon=True).start()
        return run

    def _work(self, run: Run, ask: PromptRequest) -> None:
        failure = ""
        try:
            with suppress(CancellationError):
                self._make(run, ask)
        except CanopyError as error:
            failure = str(error)
        except Exception as error:
            log.exception("The run %s failed.", run.id)
            failure = (f"The run ended with an internal error ({type(error).__name__}); the rounds so far are kept, "
                       "and the server's log has the details. Other runs still work.")
        run.end(failure)

    def _make(self, run: Run, ask: PromptRequest) -> None:
        while sentence := self._rig.waiting():
            self._wait(run, sentence)
            sleep(SECONDS_BETWEEN_LOOKS)
        prepared = self._rig.source.prepare(ask)
        with self._queue.place(run.address, prepared.share, run.id) as place:
            for sentence in place.sentences():
                self._wait(run, sentence)
            run.say("running", READING)
            with closing(prepared.lines()) as lines:
                for line in lines:
                    run.check()
                    if isinstance(line, Header):
                        line = replace(line, note=f"{self._rig.note} {line.note}".strip())  # noqa: PLW2901
                    if line is not None:
                        self._runs.add(run, line)
        if not run.lines:
            raise RequestError("The run wrote nothing; try another prompt.")

    @staticmethod
    def _wait(run: Run, sentence: str) -> None:
        run.check()
        if sentence != run.state_line["message"]:
            run.say("queued", sentence)


class Stream:
    """Runs a ``PromptRequest`` on the rig that answers, and yields what the stage is to show."""

    def __init__(self, rig: CurrentRig, runs: Runs, queue: RunQueue) -> None:
        self._rig = rig
        self._runs = runs
        self._queue = queue

    def usual_setting(self) -> UsualSetting:
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
        shown, window, corrected, kept = 0.0, Window(run), False, Run(run)
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
                        kept = self._runs.begin(Run(window.view["run"]))
                    elif isinstance(line, End) and corrected:
                        yield window.value()  # as a run in progress, so that the stage shows its last round
                    self._runs.add(kept, without_others(line))
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
        finally:
            kept.end()
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
