"""The scheduler of a rig's concurrent runs: one thread makes batched rounds for all runs that request one.

Runs are pulled: the reader of a run requests each round (``RunReader``), so a slow reader skips rounds instead of
filling memory. The thread lives from the first run to the last, because idle OpenMP threads would disturb measurements
(``models/device.py``).

Fairness is deficit round robin. A batched round takes as long as all its rows together, so a small tree waits for large
ones. Each of n runs is owed 1/n of the time; a round pays a run the time that its own rows would take alone. A run owed
more than a round of its own gets the next round without the others. If extra rows are free, as on a GPU, this never
happens and all runs share every round. Round times are learnt online (``RoundCost``), so no cost curve is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from threading import Lock
from time import perf_counter
from typing import Any, TypeVar

import torch

from engine.budget.cost import RoundCost
from engine.checkpoints.memory import memory_error, trim_heap
from engine.decoding.loop import DecodeRun, step
from engine.errors import RequestError
from engine.machine.threads import TorchThread
from engine.records import WAIT, Request, Round
from engine.trace import Block, SharedPass

log = logging.getLogger("canopy.scheduler")
LEAVE, ROUND = object(), object()  # requests of a reader; the third kind is a function to call
WAIT_SECONDS = 0.02  # a round waits this long for the readers of the previous one
STALLED_SECONDS = 60.0  # a run whose reader requests nothing for this long is cancelled if others wait

RunRound = tuple[Round, SharedPass | None]  # a round of a run, and the pass that it shared with others, if any


@dataclass(eq=False)
class FairShare:
    """A run's account in the deficit round robin."""

    owed: float = 0.0  # seconds
    rows: int = 1  # of the latest round


Sharing = TypeVar("Sharing", bound=FairShare)


def pick_batch(runs: Sequence[Sharing], cost: RoundCost) -> list[Sharing]:
    """Return the runs that take part in the next round."""
    return [run for run in runs if run.owed > cost.seconds(run.rows)] or list(runs)


def update_owed(ready: Sequence[FairShare], batch: Collection[FairShare], cost: RoundCost) -> None:
    """After a round, update the seconds owed to each run in ``ready``; those in ``batch`` took part."""
    seconds = cost.seconds(sum(run.rows for run in batch))
    for run in ready:
        used_seconds = cost.seconds(run.rows) if run in batch else 0.0
        run.owed = max(0.0, run.owed + seconds / len(ready) - used_seconds)


class RunReader(FairShare):
    """The handle through which a run's reader requests rounds from the scheduler thread."""

    def __init__(self, run: DecodeRun, seat: int, inbox: SimpleQueue[tuple[RunReader, Any]]) -> None:
        super().__init__()
        self.run, self.seat = run, seat
        self.opened = False  # whether the prompt was read, or could not be
        self.pending: Any = None  # what the reader waits for
        self.since = perf_counter()  # the reader's last request or answer
        self.late = True  # whether rounds begin without waiting for its request
        self._inbox = inbox
        self._outbox: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()

    def call(self, act: Callable[[], Any]) -> Any:
        """Call ``act`` in the scheduler's thread, between two rounds, and return its result."""
        return self._ask(act)

    def round(self) -> RunRound | None:
        """Return the run's next round; None after its last."""
        answer: RunRound | None = self._ask(ROUND)
        return answer

    def leave(self) -> None:
        """Free the run's caches after the round in progress. Any thread may call it, the garbage collector's too."""
        self._inbox.put((self, LEAVE))

    def _ask(self, message: Any) -> Any:
        self._inbox.put((self, message))
        result, error = self._outbox.get()
        if error is not None:
            raise error
        return result

    def answer(self, result: Any, error: Exception | None = None) -> None:
        """Answer the reader, or raise the error in its thread. Only the scheduler's thread may call it."""
        self.pending, self.since, self.late = None, perf_counter(), False
        self._outbox.put((result, error))

    @property
    def wants_round(self) -> bool:
        return self.opened and self.pending is ROUND

    def close(self, failed: bool) -> None:
        """Free the run's caches. An error is only logged, because the other runs go on."""
        try:
            self.run.close(failed)
        except Exception:
            log.exception("A run could not be closed")

    def fail(self, error: Exception) -> None:
        """End the run and raise the error in the reader's thread; out of memory becomes a RequestError."""
        self.close(failed=True)
        self.opened = True
        self.answer(None, memory_error(error, request_in_words(self.run.request)))


def request_in_words(request: Request) -> str:
    """Describe a request's size, to complete an out-of-memory message."""
    return f"at a budget of {request.budget} nodes and {len(request.prompt_ids)} prompt tokens"


class Scheduler:
    """The runs of a rig, and the thread that makes their rounds."""

    def __init__(self) -> None:
        self._cost = RoundCost()
        self._inbox: SimpleQueue[tuple[RunReader, Any]] = SimpleQueue()
        self._entry = Lock()
        self._readers: list[RunReader] = []
        self._thread: TorchThread | None = None

    @contextmanager
    def add_run(self, run: DecodeRun) -> Iterator[RunReader]:
        """Schedule a run that was admitted. Its prompt is read when its first round is asked for; leaving the block
        frees its caches."""
        with self._entry:
            used_seats = {other.seat for other in self._readers}
            seat = next(seat for seat in range(len(used_seats) + 1) if seat not in used_seats)
            reader = RunReader(run, seat, self._inbox)
            self._readers.append(reader)
            if self._thread is None:
                self._thread = TorchThread("scheduler", self._work, self._end_runs)
                self._thread.start()
        try:
            yield reader
        finally:
            reader.leave()

    def wait_until_idle(self) -> None:
        """Wait until all runs have left and freed their caches. The caller must keep new runs out."""
        if thread := self._thread:
            thread.join()

    def _end_runs(self) -> None:
        for reader in list(self._readers):
            reader.leave()

    def _work(self) -> None:
        with torch.inference_mode():
            while True:
                try:
                    while self._readers:
                        self._take_requests()
                        self._serve_one()
                        self._make_round()
                except Exception as error:  # no reader may be left waiting for a thread that has died
                    for reader in list(self._readers):
                        self._cancel(reader, error)
                with self._entry:
                    if not self._readers:
                        self._thread = None
                        break
        trim_heap()

    def _take_requests(self) -> None:
        """Collect requests until there is work and every expected reader has asked or is late."""
        deadline: float | None = None
        while self._readers:
            has_work = any(reader.pending for reader in self._readers)
            expected = [reader for reader in list(self._readers) if not reader.pending and not reader.late]
            if has_work and not expected and self._inbox.empty():
                return
            deadline = deadline or (perf_counter() + WAIT_SECONDS if has_work else None)
            try:
                timeout = max(0.0, deadline - perf_counter()) if deadline else STALLED_SECONDS
                self._handle_message(*self._inbox.get(timeout=timeout))
            except Empty:
                for reader in expected:
                    reader.late = True
            self._cancel_stalled()

    def _handle_message(self, reader: RunReader, message: Any) -> None:
        if message is LEAVE:
            self._remove(reader)
        elif reader not in self._readers:
            return  # the run failed, and its reader got the error
        elif message is ROUND and reader.opened and not reader.run.unfinished:
            reader.answer(None)
        else:
            reader.pending, reader.since, reader.late = message, perf_counter(), False

    def _remove(self, reader: RunReader, failed: bool = False) -> None:
        reader.close(failed)
        with self._entry:
            self._readers = [other for other in self._readers if other is not reader]

    def _cancel_stalled(self) -> None:
        """Cancel runs whose readers have stopped reading, so that other runs do not wait for them."""
        if len(self._readers) < 2:
            return
        for reader in list(self._readers):
            if not reader.pending and perf_counter() - reader.since > STALLED_SECONDS:
                self._cancel(reader, RequestError(
                    f"Nobody took this run's rounds for {STALLED_SECONDS:.0f} s while others waited, so it was "
                    "cancelled; ask again."))

    def _cancel(self, reader: RunReader, error: Exception) -> None:
        """End a run; its reader gets the error, at the latest when it asks again."""
        self._remove(reader, failed=True)
        reader.answer(None, error)

    def _serve_one(self) -> None:
        """Serve one call or one prefill, so that the other runs get a round in between."""
        waiting = [reader for reader in self._readers if reader.pending and not reader.wants_round]
        if not waiting:
            return
        reader = waiting[0]
        try:
            if reader.pending is not ROUND:
                reader.answer(reader.pending())
                return
            reader.run.open()
            reader.opened = True
            if not reader.run.unfinished:
                reader.answer(None)
        except Exception as error:
            reader.fail(error)

    def _make_round(self) -> None:
        ready = [reader for reader in self._readers if reader.wants_round]
        if not ready:
            return
        batch, single = pick_batch(ready, self._cost), len(self._readers) == 1
        start = perf_counter()
        try:
            rounds = step([reader.run for reader in batch])
        except Exception as error:
            for reader in batch:
                reader.fail(error)
            return
        end = perf_counter()
        for reader, latest in zip(batch, rounds, strict=True):
            reader.rows = len(latest.tree)
        self._cost.learn(sum(reader.rows for reader in batch), end - start)
        update_owed(ready, batch, self._cost)
        if single:
            batch[0].answer((rounds[0], None))
            return
        blocks = tuple(Block(reader.seat, latest.tree.parents, latest.acceptance.keep,
                             pools_rows=len(batch) > 1 and reader.run.policy.pools_rows)
                       for reader, latest in zip(batch, rounds, strict=True))
        for reader, latest in zip(batch, rounds, strict=True):  # a round's seconds include its reader's waiting time
            waited = max(0.0, end - reader.since - sum(latest.seconds.values()))
            timed = replace(latest, seconds={**latest.seconds, WAIT: waited})
            reader.answer((timed, SharedPass(len(self._readers), reader.seat, blocks)))
