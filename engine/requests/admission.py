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

MAX_PENDING_RUNS = 24  # runs in progress and in the line, each with its place shown
MAX_RUNS_PER_ADDRESS = 4  # the same, of one address
WHOLE_RIG = 1.0
MAX_SHARE_PER_ADDRESS = 0.5  # of the rig; a single run may take more if it is free
SHARE_TOLERANCE = 1e-9  # shares may add up to this much more than 1, by rounding
POLL_SECONDS = 0.25  # between two updates of a waiting run's message


@dataclass(eq=False)
class Place:
    """A place in the queue.

    ``address`` is the client's, ``share`` the fraction of memory it needs, ``run`` the run's id (empty for a
    measurement), ``begun`` whether it was admitted, ``thread`` the one that waits in ``admitted`` (0 for others).
    """

    admission: Admission
    address: str
    share: float
    run: str = ""
    begun: bool = False
    thread: int = 0

    def sentences(self) -> Iterator[str]:
        """Yield a message for the user several times a second until the place is admitted."""
        while sentence := self.admission.wait(self, POLL_SECONDS):
            yield sentence


class Admission:
    """A first-come, first-served queue.

    A place that does not fit yet blocks all later ones, so that it is not starved. A place whose address already uses
    ``MAX_SHARE_PER_ADDRESS`` is skipped instead.
    """

    def __init__(self) -> None:
        self._change = Condition()
        self._line: list[Place] = []
        self._idle_waiters = 0  # callers of ``when_idle`` that wait
        self._owner: int | None = None  # the thread that has the machine alone

    @contextmanager
    def place(self, address: str = "", share: float = WHOLE_RIG, run: str = "") -> Iterator[Place]:
        """Join the queue; leave it at the end of the block. An empty ``address`` is the server itself."""
        place = Place(self, address, share, run)
        with self._change:
            self._line.append(place)
            self._admit()
        try:
            yield place
        finally:
            with self._change:
                self._line.remove(place)
                self._admit()
                self._change.notify_all()

    @contextmanager
    def admitted(self, share: float = WHOLE_RIG, report: Callable[[str], None] = lambda _: None) -> Iterator[None]:
        """Wait for admission of a run without an address. Re-entrant for a thread inside ``exclusive``. ``report`` is
        called several times a second with the reason for waiting; it may raise to end the wait. RequestError if the
        thread itself holds the place that it would wait for."""
        thread = get_ident()
        if self._owner == thread:
            yield
            return
        with self.place(share=share) as place:
            for sentence in place.sentences():
                if any(other.begun and other.thread == thread for other in list(self._line)):
                    raise RequestError("This thread has begun another answer, and no second one fits; read that "
                                       "one to its end or close it first, or use Rig.interleaved.")
                report(sentence)
            place.thread = thread
            yield

    @contextmanager
    def exclusive(self, report: Callable[[str], None] = lambda _: None) -> Iterator[None]:
        """Wait until this thread has the machine exclusively; see ``admitted``. Re-entrant."""
        with self.admitted(report=report):
            former, self._owner = self._owner, get_ident()
            try:
                yield
            finally:
                self._owner = former

    def when_idle(self, act: Callable[[], None], seconds: float = 0.0) -> bool:
        """Call ``act`` while the queue is empty. Return False if it is not empty within ``seconds``."""
        with self._change:
            self._idle_waiters += 1
            try:
                idle = self._change.wait_for(lambda: not self._line, seconds)
            finally:
                self._idle_waiters -= 1
            if idle:
                act()
            return idle

    def count_places(self, besides: str = "") -> int:
        """Count running and queued places and callers of ``when_idle``, without the run ``besides``."""
        with self._change:
            return sum(not besides or place.run != besides for place in self._line) + self._idle_waiters

    def running(self) -> int:
        """Return how many runs share the machine now."""
        with self._change:
            return sum(place.begun for place in self._line)

    def wait(self, place: Place, seconds: float) -> str:
        """Wait up to ``seconds`` for a place to be admitted. Return why it still waits, or "" once it is admitted."""
        with self._change:
            self._change.wait_for(lambda: place.begun, seconds)
            if place.begun:
                return ""
            running = [other for other in self._line if other.begun]
            before = sum(not other.begun for other in self._line[:self._line.index(place)])
        if any(other.share >= WHOLE_RIG for other in running):
            state = f"A {'large run' if running[0].run else 'measurement'} has the machine to itself"
        else:
            state = f"{len(running)} {'run is' if len(running) == 1 else 'runs are'} in progress"
        return f"{state}; yours is number {before + 1} in the line and starts when there is room."

    def _admit(self) -> None:
        for place in self._line:
            used = self._taken(place.address) if place.address else 0.0
            if place.begun or used > 0 and used + place.share > MAX_SHARE_PER_ADDRESS + SHARE_TOLERANCE:
                continue
            if self._taken() + place.share > WHOLE_RIG + SHARE_TOLERANCE:
                return
            place.begun = True

    def _taken(self, address: str | None = None) -> float:
        return sum(place.share for place in self._line if place.begun and address in (None, place.address))
