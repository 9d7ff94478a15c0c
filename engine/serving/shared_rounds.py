"""Runs of one rig that share rounds: one round serves all runs that want their next one.

One thread makes the rounds and owns their state. The reader of a run has a ``Seat``, through which it makes a wish and
waits for the answer. The thread starts with the first run and ends with the last, so that an idle rig has none: its
OpenMP threads would slow down anything that is measured (``models/device.py``).

A round is made only for runs that want one. So no round is made ahead of its reader, and a slow reader sits rounds out
instead of filling memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Condition, Thread
from time import perf_counter
from typing import Any

import torch

from engine.budget.cost import RoundCost
from engine.checkpoints.memory import memory_error, trim_heap
from engine.decoding.budget_policy import BudgetAllocator
from engine.decoding.loop import RequestBatch
from engine.decoding.plan import Target
from engine.errors import RequestError
from engine.records import WAIT, Round
from engine.serving.seats import LEAVE, ROUND, Seat, SharedRun, pick_batch, update_deficits
from engine.trace import Block, SharedPass

PATIENCE_SECONDS = 0.02  # how long a round waits for the runs of the last one
STALLED_SECONDS = 60.0  # without a wish while others are here, after which a run is given up
STALLED = (f"Nobody took this run's rounds for {STALLED_SECONDS:.0f} s while others waited, so it was given up; ask "
           "again.")


class SharedRounds:
    """The runs of a rig, and the thread that makes their rounds."""

    def __init__(self, target: Target, allocator: BudgetAllocator | None = None) -> None:
        """``allocator`` is for the runs at the pace ``auto``."""
        self._batch, self._cost = RequestBatch(target, allocator), RoundCost()
        self._entry = Condition()
        self._inbox: SimpleQueue[tuple[Seat, Any]] = SimpleQueue()
        self._seats: list[Seat] = []
        self._alone = 0  # how many callers have or want the rig to themselves
        self._held = False
        self._thread: Thread | None = None

    @contextmanager
    def seat(self, run: SharedRun) -> Iterator[Seat]:
        """A place for one run, as soon as no caller has or wants the rig to itself."""
        with self._entry:
            self._entry.wait_for(lambda: not self._alone)
            taken = {seat.number for seat in self._seats}
            seat = Seat(next(number for number in range(len(taken) + 1) if number not in taken), run, self._inbox)
            self._seats.append(seat)
            if self._thread is None:
                self._thread = Thread(target=self._work, name="rounds", daemon=True)
                self._thread.start()
        try:
            yield seat
        finally:
            seat.leave()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the rig for the caller alone, once the runs in progress have ended; later callers wait."""
        with self._entry:
            self._alone += 1
            try:
                self._entry.wait_for(lambda: not self._seats and not self._held)
            except BaseException:
                self._alone -= 1
                self._entry.notify_all()
                raise
            self._held = True
        try:
            yield
        finally:
            with self._entry:
                self._alone, self._held = self._alone - 1, False
                self._entry.notify_all()

    @property
    def runs(self) -> int:
        """How many runs share the rig."""
        return len(self._seats)

    def _work(self) -> None:
        with torch.inference_mode():
            while True:
                try:
                    self._make_rounds()
                except Exception as error:  # no reader may be left waiting for a thread that has died
                    for seat in list(self._seats):
                        self._give_up(seat, error)
                with self._entry:
                    if not self._seats:
                        self._thread = None
                        break
        trim_heap()

    def _make_rounds(self) -> None:
        while self._seats:
            self._take_wishes()
            self._act()
            self._round()

    def _take_wishes(self) -> None:
        """Take in wishes until there is something to do and no run is worth waiting for."""
        until = None
        while self._seats:
            wanting = any(seat.wish for seat in self._seats)
            away = [seat for seat in list(self._seats) if not seat.wish and not seat.late]
            if wanting and not away and self._inbox.empty():
                return
            until = until or (perf_counter() + PATIENCE_SECONDS if wanting else None)
            try:
                self._take_in(*self._inbox.get(timeout=max(0.0, until - perf_counter()) if until else STALLED_SECONDS))
            except Empty:
                for seat in away:
                    seat.late = True
            self._give_up_stalled()

    def _take_in(self, seat: Seat, wish: Any) -> None:
        if wish is LEAVE:
            self._clear(seat)
        elif seat not in self._seats:
            return  # the run was given up, and its reader was told
        elif wish is ROUND and seat.place is not None and seat.place not in self._batch:
            seat.give(None)
        else:
            seat.wish, seat.since, seat.late = wish, perf_counter(), False

    def _clear(self, seat: Seat) -> None:
        """Free what a run holds; its seat is then empty."""
        if seat.place is not None:
            self._batch.drop(seat.place)
        with self._entry:
            self._seats = [other for other in self._seats if other is not seat]
            self._entry.notify_all()

    def _give_up_stalled(self) -> None:
        """Give up runs whose readers have stopped reading, so that other runs do not wait for them."""
        if len(self._seats) < 2 and not self._alone:
            return
        for seat in list(self._seats):
            if not seat.wish and perf_counter() - seat.since > STALLED_SECONDS:
                self._give_up(seat, RequestError(STALLED))

    def _give_up(self, seat: Seat, error: Exception) -> None:
        """End a run; its reader gets the error, at the latest with its next wish."""
        self._clear(seat)
        seat.give(None, error)

    def _act(self) -> None:
        """Grant one wish for a call, or read one prompt; after each the other runs get a round."""
        wishing = [seat for seat in self._seats if seat.wish and not (seat.wish is ROUND and seat.place is not None)]
        if not wishing:
            return
        seat = wishing[0]
        try:
            if seat.wish is not ROUND:
                seat.give(seat.wish())
            elif not self._opened(seat):
                seat.give(None)
        except Exception as error:
            seat.give(None, memory_error(error, seat.run.asks))

    def _opened(self, seat: Seat) -> bool:
        """Read the prompt of a run, and return whether it has a first round."""
        seat.place = self._batch.admit(seat.run.request())
        seat.shares = self._batch.shares(seat.place)
        return seat.place in self._batch

    def _round(self) -> None:
        """Make one round for the runs that take part in it."""
        wanting = [seat for seat in list(self._seats) if seat.wish is ROUND and seat.place is not None]
        if not wanting:
            return
        inside = pick_batch(wanting, self._cost)
        seats = {seat.place: seat for seat in inside if seat.place is not None}
        shared, began = len(self._seats) > 1, perf_counter()
        try:
            rounds = self._batch.round(seats)
        except Exception as error:
            for place, seat in seats.items():
                self._batch.drop(place)
                seat.give(None, memory_error(error, seat.run.asks))
            return
        for place, latest in rounds:
            seats[place].rows = len(latest.tree)
        self._cost.learn(sum(seat.rows for seat in inside), perf_counter() - began)
        update_deficits(wanting, inside, self._cost)
        self._hand_out([(seats[place], latest) for place, latest in rounds], shared)

    def _hand_out(self, rounds: Sequence[tuple[Seat, Round]], shared: bool) -> None:
        """Hand each run its own round; the seconds of a shared round include the run's waiting time."""
        blocks = tuple(Block(seat.number, latest.tree.parents, latest.acceptance.keep, seat.shares and len(rounds) > 1)
                       for seat, latest in rounds)
        now = perf_counter()
        for seat, latest in rounds:
            if shared:
                waited = max(0.0, now - seat.since - sum(latest.seconds.values()))
                seat.give((replace(latest, seconds={**latest.seconds, WAIT: waited}),
                           SharedPass(len(self._seats), seat.number, blocks)))
            else:
                seat.give((latest, None))
