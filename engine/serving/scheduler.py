"""The scheduler of a rig's concurrent runs: one thread makes their rounds, each for all runs that want their next one.

The reader of a run has a ``RunHandle``, through which it asks for the next round and waits for it. A round is made only
for runs that ask, so none is made ahead of its reader, and a slow reader sits rounds out instead of filling memory. The
thread starts with the first run and ends with the last, so that an idle rig has none: its OpenMP threads would slow
down anything that is measured (``models/device.py``).

Fairness is deficit round robin. Each of n runs is owed an n-th of the time. A round takes as long as all its rows need
together, so a run of few rows would spend most of its time waiting for a run of many. What a run gets from a round is
counted as the time that the round would have taken it alone. If that is less than its part, the rig owes it the
rest; a run that is owed more than a round of its own takes the next one without the others. Where rows cost next to
nothing, as on a GPU, that never happens, and all runs take part in every round. What a round takes is learnt from the
rounds themselves (``RoundCost``): runs at fixed budgets have no measured cost curve, and must not wait for one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Condition, Lock
from time import perf_counter
from typing import Any, Protocol, TypeVar

import torch

from engine.budget.cost import RoundCost
from engine.checkpoints.memory import memory_error, trim_heap
from engine.decoding.budget_policy import BudgetAllocator
from engine.decoding.loop import BatchRequest, RequestBatch
from engine.decoding.protocols import Target
from engine.errors import RequestError
from engine.machine.threads import TorchThread
from engine.records import WAIT, Round
from engine.trace import Block, SharedPass

LEAVE, ROUND = object(), object()  # what a reader may ask for, besides a function for the scheduler's thread to call
WAIT_SECONDS = 0.02  # how long a round waits for the runs of the last one
STALLED_SECONDS = 60.0  # without asking while others are here, after which a run is given up
STALLED = (f"Nobody took this run's rounds for {STALLED_SECONDS:.0f} s while others waited, so it was given up; ask "
           "again.")

RunRound = tuple[Round, SharedPass | None]  # a round of a run, and the pass that it shared with others, if any


class Deficit(Protocol):
    """A run by the seconds that it is ``owed`` and the ``rows`` of its latest round."""

    owed: float
    rows: int


Run = TypeVar("Run", bound=Deficit)


def pick_batch(runs: Sequence[Run], cost: RoundCost) -> list[Run]:
    """Which runs take part in the next round."""
    return [run for run in runs if run.owed > cost.seconds(run.rows)] or list(runs)


def update_deficits(asking: Sequence[Deficit], inside: Collection[Deficit], cost: RoundCost) -> None:
    """After a round, update the seconds owed to each run that asked for one; ``inside`` are the runs that took part."""
    seconds = cost.seconds(sum(run.rows for run in inside))
    for run in asking:
        given = cost.seconds(run.rows) if run in inside else 0.0
        run.owed = max(0.0, run.owed + seconds / len(asking) - given)


class RunHandle:
    """A concurrent run, for its reader and for the scheduler. ``begin`` makes the request, when the run begins, since
    its pace may have to be measured first; ``purpose`` says in words what it asks the device for."""

    def __init__(self, number: int, begin: Callable[[], BatchRequest], purpose: str,
                 inbox: SimpleQueue[tuple[RunHandle, Any]]) -> None:
        self.number, self.begin, self.purpose = number, begin, purpose
        self.slot: int | None = None  # its number in the batch, once its prompt was read
        self.pools_rows = False  # whether it shares the batch's total of rows
        self.pending: Any = None  # what its reader waits for
        self.since = perf_counter()  # when its reader last asked or was answered
        self.late = True  # no round waits for it
        self.owed, self.rows = 0.0, 1  # see ``Deficit``
        self._inbox = inbox
        self._outbox: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()

    def call(self, act: Callable[[], Any]) -> Any:
        """Call ``act`` in the scheduler's thread, between two rounds, and return its result."""
        return self._ask(act)

    def round(self) -> RunRound | None:
        """The run's next round; None after its last."""
        answer: RunRound | None = self._ask(ROUND)
        return answer

    def leave(self) -> None:
        """Free the run's caches after the round in progress. Any thread may call it, the garbage collector's too."""
        self._inbox.put((self, LEAVE))

    def _ask(self, wanted: Any) -> Any:
        self._inbox.put((self, wanted))
        given, error = self._outbox.get()
        if error is not None:
            raise error
        return given

    def answer(self, given: Any, error: Exception | None = None) -> None:
        """Answer the reader, or raise the error in its thread. Only the scheduler's thread may call it."""
        self.pending, self.since, self.late = None, perf_counter(), False
        self._outbox.put((given, error))


class Scheduler:
    """The runs of a rig, and the thread that makes their rounds."""

    def __init__(self, target: Target, allocator: BudgetAllocator | None = None) -> None:
        """``allocator`` is for the runs at the pace ``auto``."""
        self._batch, self._cost = RequestBatch(target, allocator), RoundCost()
        self._inbox: SimpleQueue[tuple[RunHandle, Any]] = SimpleQueue()
        self._entry = Condition()
        self._runs: list[RunHandle] = []
        self._claims = 0  # how many callers have or want the rig to themselves
        self._claimed = Lock()  # held by the one who has it
        self._thread: TorchThread | None = None

    @contextmanager
    def run(self, begin: Callable[[], BatchRequest], purpose: str) -> Iterator[RunHandle]:
        """A run's handle, as soon as no caller has or wants the rig to itself."""
        with self._entry:
            self._entry.wait_for(lambda: not self._claims)
            taken = {run.number for run in self._runs}
            number = next(number for number in range(len(taken) + 1) if number not in taken)
            run = RunHandle(number, begin, purpose, self._inbox)
            self._runs.append(run)
            if self._thread is None:
                self._thread = TorchThread("scheduler", self._work, self._end_runs)
                self._thread.start()
        try:
            yield run
        finally:
            run.leave()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the rig for the caller alone, once the runs in progress have ended; later callers wait."""
        with self._entry:
            self._claims += 1
        try:
            with self._claimed:
                with self._entry:
                    self._entry.wait_for(lambda: not self._runs)
                yield
        finally:
            with self._entry:
                self._claims -= 1
                self._entry.notify_all()

    @property
    def concurrency(self) -> int:
        """How many runs there are."""
        return len(self._runs)

    def _end_runs(self) -> None:
        for run in list(self._runs):
            run.leave()

    def _work(self) -> None:
        with torch.inference_mode():
            while True:
                try:
                    while self._runs:
                        self._take_requests()
                        self._serve_one()
                        self._make_round()
                except Exception as error:  # no reader may be left waiting for a thread that has died
                    for run in list(self._runs):
                        self._give_up(run, error)
                with self._entry:
                    if not self._runs:
                        self._thread = None
                        break
        trim_heap()

    def _take_requests(self) -> None:
        """Take in what readers ask for until there is something to do and no run is worth waiting for."""
        until = None
        while self._runs:
            asking = any(run.pending for run in self._runs)
            away = [run for run in list(self._runs) if not run.pending and not run.late]
            if asking and not away and self._inbox.empty():
                return
            until = until or (perf_counter() + WAIT_SECONDS if asking else None)
            try:
                self._take_in(*self._inbox.get(timeout=max(0.0, until - perf_counter()) if until else STALLED_SECONDS))
            except Empty:
                for run in away:
                    run.late = True
            self._give_up_stalled()

    def _take_in(self, run: RunHandle, wanted: Any) -> None:
        if wanted is LEAVE:
            self._clear(run)
        elif run not in self._runs:
            return  # the run was given up, and its reader was told
        elif wanted is ROUND and run.slot is not None and run.slot not in self._batch:
            run.answer(None)
        else:
            run.pending, run.since, run.late = wanted, perf_counter(), False

    def _clear(self, run: RunHandle) -> None:
        """Free what a run holds, and its seat among the others."""
        if run.slot is not None:
            self._batch.drop(run.slot)
        with self._entry:
            self._runs = [other for other in self._runs if other is not run]
            self._entry.notify_all()

    def _give_up_stalled(self) -> None:
        """Give up runs whose readers have stopped reading, so that other runs do not wait for them."""
        if len(self._runs) < 2 and not self._claims:
            return
        for run in list(self._runs):
            if not run.pending and perf_counter() - run.since > STALLED_SECONDS:
                self._give_up(run, RequestError(STALLED))

    def _give_up(self, run: RunHandle, error: Exception) -> None:
        """End a run; its reader gets the error, at the latest when it asks again."""
        self._clear(run)
        run.answer(None, error)

    def _serve_one(self) -> None:
        """Make one call, or read one prompt; after each the other runs get a round."""
        run = next((run for run in self._runs if run.pending and (run.pending is not ROUND or run.slot is None)), None)
        if run is None:
            return
        try:
            if run.pending is not ROUND:
                run.answer(run.pending())
                return
            run.slot = self._batch.admit(run.begin())
            run.pools_rows = self._batch.pools_rows(run.slot)
            if run.slot not in self._batch:
                run.answer(None)  # its text is empty
        except Exception as error:
            run.answer(None, memory_error(error, run.purpose))

    def _make_round(self) -> None:
        """Make one round for the runs that take part in it."""
        asking = [run for run in list(self._runs) if run.pending is ROUND and run.slot is not None]
        if not asking:
            return
        inside = pick_batch(asking, self._cost)
        by_slot = {run.slot: run for run in inside if run.slot is not None}
        concurrent, began = len(self._runs) > 1, perf_counter()
        try:
            rounds = [(by_slot[slot], latest) for slot, latest in self._batch.round(by_slot)]
        except Exception as error:
            for slot, run in by_slot.items():
                self._batch.drop(slot)
                run.answer(None, memory_error(error, run.purpose))
            return
        for run, latest in rounds:
            run.rows = len(latest.tree)
        self._cost.learn(sum(run.rows for run in inside), perf_counter() - began)
        update_deficits(asking, inside, self._cost)
        self._hand_out(rounds, concurrent)

    def _hand_out(self, rounds: Sequence[tuple[RunHandle, Round]], concurrent: bool) -> None:
        """Hand each run its own round; the seconds of a concurrent run's round include its waiting time."""
        several = len(rounds) > 1
        blocks = tuple(Block(run.number, latest.tree.parents, latest.acceptance.keep, run.pools_rows and several)
                       for run, latest in rounds)
        now = perf_counter()
        for run, latest in rounds:
            if concurrent:
                waited = max(0.0, now - run.since - sum(latest.seconds.values()))
                run.answer((replace(latest, seconds={**latest.seconds, WAIT: waited}),
                            SharedPass(len(self._runs), run.number, blocks)))
            else:
                run.answer((latest, None))
