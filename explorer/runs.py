"""Runs on the server. One thread appends a run's lines, any number of readers stream them; finished runs are kept for
export and links until memory runs short."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock, Thread
from time import monotonic, sleep
from uuid import uuid4

from engine.decoding.budget_policy import AUTO
from engine.errors import CancellationError, CanopyError, RequestError
from engine.records import PromptRequest
from engine.requests.admission import MAX_PENDING_RUNS, MAX_RUNS_PER_ADDRESS, Admission, QueueEntry
from engine.requests.rig_names import DefaultSetting, default_setting
from engine.trace import End, Entry, Header, Line, Trace, estimate_bytes
from explorer.claims import PlainComparison
from explorer.lines import About, State, StateLine, about, encode_up_to, encoded, remark, repetition
from explorer.rig import CurrentRig, PendingRun

MAX_TOTAL_BYTES = 256 * 2**20  # beyond it, the oldest finished run is dropped
RUN_BYTES = 3_000  # of memory, for a run without lines
MAX_READERS_PER_RUN = 32
ENCODERS = ThreadPoolExecutor(2, "encoder")  # few threads, because encoding slows down the decode loop
MAX_CHUNK_BYTES = 2**18  # a single longer line is one chunk
POLL_SECONDS = 0.2  # while a run waits for the rig
SECONDS_BETWEEN_CHUNKS = 1 / 30  # of a run in progress
MAX_CHUNKS_PER_SECOND = 80  # over all runs in progress
READER_TIMEOUT_SECONDS = 10.0  # a run that had no reader for longer is stopped
CROWDED_TIMEOUT_SECONDS = 4.0  # the same while others wait or share the rounds; a page that reloads takes up to three
MIN_NEW_TOKENS, NEW_SHARE = 16, 0.25  # new text after which a loop is looked for again: the larger of the two
READING, SHARING = "Reading the prompt …", "Waiting for a round of another run …"
LARGE_BUDGET = 512  # nodes; a pass over as many may take seconds
ENDED = ("stopped", "done", "error")

log = logging.getLogger("canopy")


@dataclass(eq=False, repr=False)
class RunLog:
    """A run's lines, state, comments (``about``) and readers. One thread writes, others read."""

    id: str
    address: str = ""
    lines: list[Line] = field(default_factory=list)
    size: int = RUN_BYTES  # approximate bytes of memory
    about: About = field(default_factory=About)

    def __post_init__(self) -> None:
        self.state_line: StateLine = {"state": "running", "run": self.id, "message": READING}
        self._readers = list[Callable[[], object]]()
        self._last_reader_left = monotonic()
        self._stopped = False
        self._tokens = self._checked = 0

    @classmethod
    def recorded(cls, name: str, trace: Trace, comparison: PlainComparison | None = None) -> "RunLog":
        """Make a finished run of a trace."""
        run = cls(name, lines=list(trace.lines))
        run.about = {**about(trace.header), "remark": remark(trace.end), "repetition": repetition(trace)}
        run.set_comparison(comparison)
        run.end()
        return run

    @property
    def ended(self) -> bool:
        return self.state_line["state"] in ENDED

    @property
    def readers(self) -> int:
        return len(self._readers)

    def add(self, line: Line) -> None:
        """Append a line. A second header restarts the run."""
        self.lines.append(line)
        self.size += estimate_bytes(line)
        if isinstance(line, Header):
            self.about, self._tokens, self._checked = about(line), 0, 0
        elif isinstance(line, Entry):
            self._tokens += len(line.round.acceptance.keep)
        elif comment := remark(line):
            self.about = {**self.about, "remark": comment}
        due = self._checked + max(MIN_NEW_TOKENS, NEW_SHARE * self._checked)
        if self._tokens >= due or isinstance(line, End):
            self._checked = self._tokens
            if (trace := self.trace()) and (found := repetition(trace)):
                self.about = {**self.about, "repetition": found}
        self._notify()

    def set_comparison(self, comparison: PlainComparison | None) -> None:
        """Store the latest comparison with plain decoding."""
        if comparison:
            self.about = {**self.about, "comparison": comparison}

    def set_state(self, state: State, message: str = "") -> None:
        """Set the state and its message, and wake the readers."""
        self.state_line = {"state": state, "run": self.id, "message": message}
        self._notify()

    def end(self, failure: str = "") -> None:
        """Finish the run, with an error message if it failed. Removes other users' runs from its rounds."""
        lines = [replace(line, shared=None) if isinstance(line, Entry) else line for line in self.lines]
        if lines and isinstance(lines[-1], Entry) and (trace := self.trace()):
            lines.append(trace.end)
        self.lines = lines
        reason = lines[-1].reason if lines and isinstance(lines[-1], End) else "stopped"
        self.set_state("error" if failure else "stopped" if reason in ("stopped", "cut") else "done", failure)

    def stop(self) -> None:
        """Request the run to stop."""
        self._stopped = True

    def raise_if_stopped(self, crowded: bool = False) -> None:
        """Raise CancellationError if the run was stopped, or has had no reader for ``READER_TIMEOUT_SECONDS``, or for
        ``CROWDED_TIMEOUT_SECONDS`` if others wait for it."""
        timeout = CROWDED_TIMEOUT_SECONDS if crowded else READER_TIMEOUT_SECONDS
        if self._stopped or not self._readers and monotonic() - self._last_reader_left > timeout:
            raise CancellationError("It was stopped.")

    def trace(self) -> Trace | None:
        """Return the run so far as a complete trace; None before the first round."""
        lines = list(self.lines)
        first = max((place for place, line in enumerate(lines) if isinstance(line, Header)), default=len(lines))
        entries = tuple(line for line in lines[first:] if isinstance(line, Entry))
        if not entries:
            return None
        end = lines[-1] if isinstance(lines[-1], End) else End("stopped", len(entries), entries[-1].elapsed_seconds)
        return Trace(lines[first], entries, end)  # type: ignore[arg-type]

    @contextmanager
    def reading(self, notify: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Count as a reader for as long as the block lasts; ``notify`` is called for each new line or state."""
        self._readers.append(notify)
        try:
            yield
        finally:
            self._readers.remove(notify)
            self._last_reader_left = monotonic()

    def _notify(self) -> None:
        for notify in list(self._readers):
            notify()

    def all_lines(self) -> Iterator[bytes]:
        """Yield all encoded lines of a finished run."""
        yield encoded(self.state_line)
        yield encoded(self.lines[0])
        yield encoded({"about": self.about})
        yield from map(encoded, self.lines[1:])

    async def follow(self, first: int, pause: Callable[[], float]) -> AsyncIterator[bytes]:
        """Stream the encoded lines from number ``first`` on until the run ends, with a state line before and after.

        ``pause`` returns the seconds to wait between chunks, so that single lines are sent together.
        """
        wake, loop = asyncio.Event(), asyncio.get_running_loop()
        sent_state, sent_about = None, None
        with self.reading(partial(loop.call_soon_threadsafe, wake.set)):
            while True:
                wake.clear()
                ended, state, latest = self.ended, self.state_line, self.about  # first: if ended, no lines can follow
                if sent_state is None or state != sent_state and not ended:
                    yield encoded(sent_state := state)
                unsent = self.lines[first:]
                if unsent:
                    chunk, count = await loop.run_in_executor(ENCODERS, encode_up_to, unsent, MAX_CHUNK_BYTES)
                    first += count
                    yield chunk
                if latest is not sent_about and self.lines:
                    sent_about = latest
                    yield encoded({"about": latest})
                if unsent and count < len(unsent):
                    continue
                if ended:
                    yield encoded(state)
                    return
                await asyncio.sleep(pause() if unsent else 0)
                await wake.wait()


class Runs:
    """Runs in progress and the latest finished ones, by id. Ids are unguessable: anybody with the link may read the
    run."""

    def __init__(self, max_bytes: int = MAX_TOTAL_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, RunLog] = OrderedDict()
        self._lock = Lock()

    def register(self, run: RunLog) -> RunLog:
        """Register a new run. Raises RequestError if ``MAX_PENDING_RUNS`` are in progress, or
        ``MAX_RUNS_PER_ADDRESS`` of its address; an empty address is the server itself."""
        with self._lock:
            pending = [other.address for other in self._kept.values() if not other.ended]
            if run.address and pending.count(run.address) >= MAX_RUNS_PER_ADDRESS:
                raise RequestError(
                    f"You already have {MAX_RUNS_PER_ADDRESS} runs in progress or waiting, which is the most for one "
                    "address; wait until one has ended, or stop one.")
            if len(pending) >= MAX_PENDING_RUNS:
                raise RequestError(
                    f"{MAX_PENDING_RUNS} runs are in progress or waiting, which is the most; try again when one has "
                    "ended.")
            self._kept[run.id] = run
            self._kept.move_to_end(run.id)
            self._evict(run)
        return run

    def add(self, run: RunLog, *lines: Line) -> None:
        """Append lines, dropping other runs (finished ones first, oldest first) to stay within the memory limit.

        Raises RequestError if this run alone exceeds it.
        """
        self._check(run.size + sum(map(estimate_bytes, lines)))
        for line in lines:
            run.add(line)
        with self._lock:
            self._evict(run)

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            raise RequestError(f"The run holds more than {self._max_bytes // 2**20} MiB of rounds, which is the "
                               "most that is remembered; ask for fewer tokens or a smaller node budget.")

    def _evict(self, keep: RunLog) -> None:
        while sum(other.size for other in self._kept.values()) > self._max_bytes:
            others = [other for other in self._kept.values() if other is not keep]
            oldest = min(others, key=lambda other: not other.ended)
            oldest.stop()  # once it is dropped, nobody can stop it any more
            del self._kept[oldest.id]

    def get(self, name: str) -> RunLog | None:
        with self._lock:
            return self._kept.get(name)

    def find(self, name: str) -> RunLog:
        """Return a run by its id. Raises RequestError if it is gone."""
        if (run := self.get(name)) is None:
            raise RequestError(f"There is no run {name[:40]!r} any more; the server keeps the latest, up to "
                               f"{self._max_bytes // 2**20} MiB of them.")
        return run

    def trace(self, name: str) -> Trace:
        """Return a run as a trace. Raises RequestError if it is gone or has no round yet."""
        if (trace := self.find(name).trace()) is None:
            raise RequestError(f"The run {name[:40]!r} has no round yet.")
        return trace

    def store(self, run: RunLog) -> None:
        """Store a finished run."""
        run.size += sum(map(estimate_bytes, run.lines))
        self._check(run.size)
        with self._lock:
            self._kept[run.id] = run
            self._evict(run)

    def remove(self, name: str) -> None:
        """Remove the run of that id, if there is one."""
        with self._lock:
            self._kept.pop(name, None)


class Runner:
    """Starts runs on the rig that answers."""

    def __init__(self, rig: CurrentRig, runs: Runs, admission: Admission) -> None:
        self._rig = rig
        self._runs = runs
        self._admission = admission

    def default_setting(self) -> DefaultSetting:
        """Return the current rig's default method and budget."""
        return default_setting(self._rig.instruments.opened_as)

    def pause(self) -> float:
        """Return the seconds between two chunks of a run, longer when more runs are in progress."""
        return max(SECONDS_BETWEEN_CHUNKS, self._admission.running() / MAX_CHUNKS_PER_SECOND)

    def start(self, request: PromptRequest, address: str = "", cache_key: str | None = "") -> RunLog:
        """Start a run in a thread; it waits for the first rig, then in the queue. ``cache_key`` says whose cached
        texts it may begin with (``clients.cache_key_of``). Raises RequestError if the queue is full."""
        run = self._runs.register(RunLog(uuid4().hex[:12], address))
        Thread(target=self._run_to_end, args=(run, request, cache_key), name=f"run {run.id}", daemon=True).start()
        return run

    def _run_to_end(self, run: RunLog, request: PromptRequest, cache_key: str | None) -> None:
        failure = ""
        try:
            with suppress(CancellationError):
                self._run_when_admitted(run, request, cache_key)
        except CanopyError as error:
            failure = str(error)
        except Exception as error:
            log.exception("The run %s failed.", run.id)
            failure = (f"The run ended with an internal error ({type(error).__name__}); the rounds so far are kept, "
                       "other runs still work, and the server's log has the details.")
        run.end(failure)

    def _run_when_admitted(self, run: RunLog, request: PromptRequest, cache_key: str | None) -> None:
        while message := self._rig.loading_message():
            self._wait(run, message)
            sleep(POLL_SECONDS)
        rig_unchanged = False
        interrupt = partial(self._raise_if_unwanted, run) if request.budget >= LARGE_BUDGET else None
        while not rig_unchanged:
            generation = self._rig.generation
            prepared = self._rig.source.prepare(request, interrupt, cache_key=cache_key)
            with self._admission.enter(run.address, prepared.share, run.id) as entry:
                rig_unchanged = generation == self._rig.generation  # no other rig takes over while the run has a place
                if rig_unchanged:
                    self._append_lines(run, prepared, entry)
        if not run.lines:
            raise RequestError("The run wrote nothing; try another prompt.")

    def _append_lines(self, run: RunLog, prepared: PendingRun, entry: QueueEntry) -> None:
        """Wait for admission, then append the lines of a prepared run."""
        for sentence in entry.wait_messages():
            self._wait(run, sentence)
        run.set_state("running", SHARING if self._admission.running() > 1 else READING)
        with closing(prepared.lines()) as lines:
            for line in lines:
                self._raise_if_unwanted(run)
                if isinstance(line, Header):
                    line = replace(line, note=f"{self._rig.note} {line.note}".strip())  # noqa: PLW2901
                    run.set_state("running", first_wait(line))
                if line is not None:
                    self._runs.add(run, line)

    def _raise_if_unwanted(self, run: RunLog) -> None:
        run.raise_if_stopped(crowded=not run.readers and self._admission.count_entries(excluding=run.id) > 0)

    @staticmethod
    def _wait(run: RunLog, sentence: str) -> None:
        run.raise_if_stopped()
        if sentence != run.state_line["message"]:
            run.set_state("queued", sentence)


def first_wait(header: Header) -> str:
    """Say what a run does until its first round is there."""
    request = header.request
    if not header.drafters or request.pace == AUTO or request.budget < LARGE_BUDGET:
        return READING
    return f"Reading the prompt, then checking up to {request.budget:,} guesses in one pass …"
