"""The queue for the machine: runs share it as far as there is room, a measurement has it to itself, and every waiting
run is told why it waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition

from engine.errors import RequestError

WAITING_ROOM = 24  # runs in progress and in the line, each with its place shown
MOST_PLACES = 4  # in the line, of one address
ALL = 1.0  # of the room: what a measurement takes
MOST_OF_ONE = 0.5  # of the room, for the runs of one address; a single run may take more where it is free
ROUNDING = 1e-9  # that parts of the room may add up to more than all of it


@dataclass(eq=False)
class Ticket:
    """A place in the queue: whose it is, how much of the room it takes, and whether it has begun."""

    address: str
    share: float
    begun: bool = False


@dataclass(frozen=True)
class Wait:
    """What a place waits for: the runs that have ``begun``, those ``waiting`` before it, and whether one that has begun
    has the machine to itself (``alone``)."""

    begun: int = 0
    waiting: int = 0
    alone: bool = False

    @property
    def ahead(self) -> int:
        """How many, in all."""
        return self.begun + self.waiting

    def sentence(self) -> str:
        """A sentence for the person who waits; empty where there is nothing to wait for."""
        if not self.ahead:
            return ""
        if self.alone or not self.begun:
            what = "A measurement or a large run has the machine to itself" if self.begun else "The machine is busy"
            ending = "it has ended"
        else:
            what = "One run is in progress" if self.begun == 1 else f"{self.begun} runs share this machine"
            ending = "it has ended" if self.begun == 1 else "one of them ends"
        before = {0: "yours", 1: "one more waits before yours, which"}.get(
            self.waiting, f"{self.waiting} more wait before yours, which")
        return f"{what}; {before} starts when {ending}."


class RunQueue:
    """A queue in order of arrival. A waiting run asks for its place as often as it likes and may leave at any time.

    A run that needs more room than is left keeps all later ones waiting, so that it gets its turn; one whose address
    already has its part of the room is passed over.
    """

    def __init__(self) -> None:
        self._change = Condition()
        self._line: list[Ticket] = []
        self._asking = 0

    @contextmanager
    def place(self, address: str = "", share: float = ALL) -> Iterator[Place]:
        """A place at the end of the queue, given up on leaving the block, served or not. RequestError where that
        address already has as many places as it may have; an empty address is the server itself."""
        ticket = Ticket(address, share)
        with self._change:
            if address and sum(other.address == address for other in self._line) >= MOST_PLACES:
                raise RequestError(f"You already have {MOST_PLACES} runs in progress or waiting, which is the most for "
                                   "one address; wait until one has ended, or stop one.")
            self._line.append(ticket)
            self._admit()
        try:
            yield Place(self, ticket)
        finally:
            with self._change:
                self._line.remove(ticket)
                self._admit()
                self._change.notify_all()

    def _admit(self) -> None:
        """Let runs begin, in order of arrival, as far as there is room."""
        for ticket in self._line:
            if ticket.begun or self._has_its_part(ticket):
                continue
            if self._taken() + ticket.share > ALL + ROUNDING:
                return
            ticket.begun = True

    def _taken(self, address: str | None = None) -> float:
        return sum(each.share for each in self._line if each.begun and address in (None, each.address))

    def _has_its_part(self, ticket: Ticket) -> bool:
        taken = self._taken(ticket.address) if ticket.address else 0.0
        return taken > 0 and taken + ticket.share > MOST_OF_ONE + ROUNDING

    def alone(self, act: Callable[[], None], seconds: float = 0.0) -> bool:
        """Do something short while no run is in progress or waiting, after waiting at most ``seconds`` for that; False
        where one still is."""
        with self._change:
            if self._line and seconds:
                self._asking += 1
                try:
                    self._change.wait_for(lambda: not self._line, seconds)
                finally:
                    self._asking -= 1
            if not self._line:
                act()
                return True
            return False

    def waiting(self) -> int:
        """How many run or wait, including callers of ``alone``."""
        with self._change:
            return len(self._line) + self._asking

    def begun(self) -> int:
        """How many runs share the machine now."""
        with self._change:
            return sum(ticket.begun for ticket in self._line)

    def wait(self, ticket: Ticket, seconds: float) -> Wait:
        """What is before the ticket, after waiting at most ``seconds`` for nothing to be."""
        with self._change:
            if not ticket.begun:
                self._change.wait(seconds)
            if ticket.begun:
                return Wait()
            begun = [each for each in self._line if each.begun]
            before = self._line[:self._line.index(ticket)]
            return Wait(len(begun), sum(not each.begun for each in before), any(each.share >= ALL for each in begun))


class Place:
    """A run's place in the queue, as its owner sees it."""

    def __init__(self, queue: RunQueue, ticket: Ticket) -> None:
        self._queue = queue
        self._ticket = ticket

    def wait(self, seconds: float = 0.25) -> Wait:
        """What is before it; returns after ``seconds`` at the latest, at once when it is nothing."""
        return self._queue.wait(self._ticket, seconds)

    def ahead(self, seconds: float = 0.25) -> int:
        """How many are before it."""
        return self.wait(seconds).ahead
