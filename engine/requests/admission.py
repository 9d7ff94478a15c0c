"""Admission control: which runs may start, which wait in the queue, and who has the machine exclusively.

Runs share the machine until their memory shares add up to 1. Measurements, and runs that need all of the memory, run
exclusively. The page passes one ``Admission`` to every rig it opens; a program's rig creates its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, get_ident

from engine.errors import RequestError

MAX_PENDING_RUNS = 24  # running and queued
MAX_RUNS_PER_ADDRESS = 4  # the same, from one address
FULL_SHARE = 1.0  # of the rig's memory for runs
MAX_SHARE_PER_ADDRESS = 0.5  # of the rig; a single run may take more if it is free
SHARE_TOLERANCE = 1e-9  # by rounding, shares may add up to slightly more than 1
POLL_SECONDS = 0.25  # between two updates of a waiting run's message


@dataclass(eq=False)
class QueueEntry:
    """A running or waiting entry of the queue.

    ``address`` is the client's, ``share`` the fraction of memory it needs, ``run`` the run's id (empty for a
    measurement), ``thread`` the one that waits in ``Admission.admitted`` (0 for others).
    """

    admission: Admission
    address: str
    share: float
    run: str = ""
    admitted: bool = False
    thread: int = 0

    def wait_messages(self) -> Iterator[str]:
        """Yield a message for the user several times a second until the entry is admitted."""
        while message := self.admission.wait(self, POLL_SECONDS):
            yield message


class Admission:
    """A first-come, first-served queue.

    An entry that does not fit yet blocks all later ones, so that it is not starved. An entry whose address already uses
    ``MAX_SHARE_PER_ADDRESS`` is skipped instead.
    """

    def __init__(self) -> None:
        self._change = Condition()
        self._queue: list[QueueEntry] = []
        self._idle_waiters = 0  # waiting callers of ``when_idle``
        self._owner: int | None = None  # the thread inside ``exclusive``

    @contextmanager
    def enter(self, address: str = "", share: float = FULL_SHARE, run: str = "") -> Iterator[QueueEntry]:
        """Join the queue; leave it at the end of the block. An empty ``address`` is the server itself."""
        entry = QueueEntry(self, address, share, run)
        with self._change:
            self._queue.append(entry)
            self._admit()
        try:
            yield entry
        finally:
            with self._change:
                self._queue.remove(entry)
                self._admit()
                self._change.notify_all()

    @contextmanager
    def admitted(self, share: float = FULL_SHARE, report: Callable[[str], None] = lambda _: None) -> Iterator[None]:
        """Wait for admission of a run without an address. Re-entrant for a thread inside ``exclusive``. ``report`` is
        called several times a second with the reason for waiting; it may raise to end the wait. Raises
        RequestError if this thread already holds an entry, because waiting would deadlock."""
        thread = get_ident()
        if self._owner == thread:
            yield
            return
        with self.enter(share=share) as entry:
            for message in entry.wait_messages():
                if any(other.admitted and other.thread == thread for other in list(self._queue)):
                    raise RequestError("This thread has admitted another answer, and no second one fits; read that "
                                       "one to its end or close it first, or use Rig.interleaved.")
                report(message)
            entry.thread = thread
            yield

    @contextmanager
    def exclusive(self, report: Callable[[str], None] = lambda _: None) -> Iterator[None]:
        """Wait until this thread has the machine exclusively; see ``admitted``. Re-entrant."""
        with self.admitted(report=report):
            previous, self._owner = self._owner, get_ident()
            try:
                yield
            finally:
                self._owner = previous

    def when_idle(self, act: Callable[[], None], seconds: float = 0.0) -> bool:
        """Call ``act`` while the queue is empty. Return False if it is not empty within ``seconds``."""
        with self._change:
            self._idle_waiters += 1
            try:
                idle = self._change.wait_for(lambda: not self._queue, seconds)
            finally:
                self._idle_waiters -= 1
            if idle:
                act()
            return idle

    def count_entries(self, excluding: str = "") -> int:
        """Count running and queued entries, except the run ``excluding``, and callers of ``when_idle``."""
        with self._change:
            return sum(not excluding or entry.run != excluding for entry in self._queue) + self._idle_waiters

    def running(self) -> int:
        """Return how many runs share the machine now."""
        with self._change:
            return sum(entry.admitted for entry in self._queue)

    def wait(self, entry: QueueEntry, seconds: float) -> str:
        """Wait up to ``seconds`` for a entry to be admitted. Return why it still waits, or "" once it is admitted."""
        with self._change:
            self._change.wait_for(lambda: entry.admitted, seconds)
            if entry.admitted:
                return ""
            running = [other for other in self._queue if other.admitted]
            before = sum(not other.admitted for other in self._queue[:self._queue.index(entry)])
        if any(other.share >= FULL_SHARE for other in running):
            state = f"A {'large run' if running[0].run else 'measurement'} has the machine to itself"
        else:
            state = f"{len(running)} {'run is' if len(running) == 1 else 'runs are'} in progress"
        return f"{state}; yours is number {before + 1} in the queue and starts when there is room."

    def _admit(self) -> None:
        for entry in self._queue:
            used = self._used_share(entry.address) if entry.address else 0.0
            if entry.admitted or used > 0 and used + entry.share > MAX_SHARE_PER_ADDRESS + SHARE_TOLERANCE:
                continue
            if self._used_share() + entry.share > FULL_SHARE + SHARE_TOLERANCE:
                return
            entry.admitted = True

    def _used_share(self, address: str | None = None) -> float:
        return sum(entry.share for entry in self._queue if entry.admitted and address in (None, entry.address))
