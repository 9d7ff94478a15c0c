"""Admission: who may start on a machine, who waits and at which place, and who has it alone.

Runs share the machine as far as there is room. A measurement, or a run that needs all of the memory, has it alone. A
rig opened by a program has an admission of its own; the page makes one and hands it to every rig that it opens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, get_ident

from engine.errors import RequestError

WAITING_ROOM = 24  # runs in progress and in the line, each with its place shown
MAX_PLACES = 4  # in the line, of one address
ALL = 1.0  # of the room
MAX_SHARE_OF_ONE = 0.5  # of the room, for the runs of one address; a single run may take more if it is free
ROUNDING = 1e-9  # by which shares may add up to more than all of the room
POLL_SECONDS = 0.25  # between two sentences to whoever waits


def ignore(_: str) -> None:
    """Hear nothing of why one waits."""


@dataclass(eq=False)
class Place:
    """A place in the line: whose it is, the share of the room that it takes, the id of its run (empty for a
    measurement), and whether it has begun."""

    admission: Admission
    address: str
    share: float
    run: str = ""
    begun: bool = False

    def sentences(self) -> Iterator[str]:
        """Yield why it waits, some times a second, until it begins."""
        while sentence := self.admission.wait(self, POLL_SECONDS):
            yield sentence


class Admission:
    """Places in order of arrival. One that waits asks for its turn as often as it likes and may leave at any time.

    One that needs more room than is left keeps all later ones waiting, so that it gets its turn; one whose address
    already has its part of the room is passed over.
    """

    def __init__(self) -> None:
        self._change = Condition()
        self._line: list[Place] = []
        self._visitors = 0  # callers of ``when_idle`` that wait
        self._owner: int | None = None  # the thread that has the machine alone

    @contextmanager
    def place(self, address: str = "", share: float = ALL, run: str = "") -> Iterator[Place]:
        """Take a place at the end of the line, and give it up on leaving the block, admitted or not. RequestError if
        that address already has as many as it may; an empty address is the server itself."""
        place = Place(self, address, share, run)
        with self._change:
            if address and sum(other.address == address for other in self._line) >= MAX_PLACES:
                raise RequestError(f"You already have {MAX_PLACES} runs in progress or waiting, which is the most for "
                                   "one address; wait until one has ended, or stop one.")
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
    def admitted(self, share: float = ALL, tell: Callable[[str], None] = ignore) -> Iterator[None]:
        """Wait for a place in the server's name. ``tell`` hears why, some times a second, and ends the waiting by
        raising. A thread that has the machine alone needs no other place."""
        if self._owner == get_ident():
            yield
            return
        with self.place(share=share) as place:
            for sentence in place.sentences():
                tell(sentence)
            yield

    @contextmanager
    def exclusive(self, tell: Callable[[str], None] = ignore) -> Iterator[None]:
        """Wait until this thread has the machine alone; see ``admitted``. It may enter this again."""
        with self.admitted(tell=tell):
            former, self._owner = self._owner, get_ident()
            try:
                yield
            finally:
                self._owner = former

    def when_idle(self, act: Callable[[], None], seconds: float = 0.0) -> bool:
        """Do something short while nobody has a place, after waiting at most ``seconds`` for that. Return whether it
        was done."""
        with self._change:
            self._visitors += 1
            try:
                idle = self._change.wait_for(lambda: not self._line, seconds)
            finally:
                self._visitors -= 1
            if idle:
                act()
            return idle

    def waiting(self, besides: str = "") -> int:
        """Return how many are in progress or wait, callers of ``when_idle`` included; without the run ``besides``."""
        with self._change:
            return sum(not besides or place.run != besides for place in self._line) + self._visitors

    def running(self) -> int:
        """Return how many share the machine now."""
        with self._change:
            return sum(place.begun for place in self._line)

    def wait(self, place: Place, seconds: float) -> str:
        """Wait at most ``seconds`` for a place to begin. Return a sentence on why it waits, empty if it has begun."""
        with self._change:
            self._change.wait_for(lambda: place.begun, seconds)
            if place.begun:
                return ""
            running = [other for other in self._line if other.begun]
            before = sum(not other.begun for other in self._line[:self._line.index(place)])
        if any(other.share >= ALL for other in running):
            state = f"A {'large run' if running[0].run else 'measurement'} has the machine to itself"
        elif len(running) == 1:
            state = "One run is in progress"
        else:
            state = f"{len(running)} runs share this machine"
        turn = {0: "yours", 1: "one more waits before yours, which"}.get(
            before, f"{before} more wait before yours, which")
        return f"{state}; {turn} starts when {'it has ended' if len(running) == 1 else 'one of them ends'}."

    def _admit(self) -> None:
        """Admit in order of arrival, as far as there is room."""
        for place in self._line:
            if place.begun or self._has_its_part(place):
                continue
            if self._taken() + place.share > ALL + ROUNDING:
                return
            place.begun = True

    def _taken(self, address: str | None = None) -> float:
        return sum(place.share for place in self._line if place.begun and address in (None, place.address))

    def _has_its_part(self, place: Place) -> bool:
        taken = self._taken(place.address) if place.address else 0.0
        return taken > 0 and taken + place.share > MAX_SHARE_OF_ONE + ROUNDING
