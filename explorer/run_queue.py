"""One model, one run at a time: who waits knows how many are ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition

from engine.errors import RequestError

MOST_PLACES = 4  # in the line, of one address


@dataclass(eq=False)
class Ticket:
    """A place in the line; of whom."""

    address: str


class RunQueue:
    """A queue in order of arrival. A waiting run asks for its place as often as it likes and may leave at any time."""

    def __init__(self) -> None:
        self._change = Condition()
        self._line: deque[Ticket] = deque()
        self._asking = 0

    @contextmanager
    def place(self, address: str = "") -> Iterator[Place]:
        """A place at the end of the line, given up on leaving the block, served or not. RequestError where that
        address has as many already as one may have; an empty one is the server itself."""
        ticket = Ticket(address)
        with self._change:
            if address and sum(other.address == address for other in self._line) >= MOST_PLACES:
                raise RequestError(f"{MOST_PLACES} runs of yours wait or run already, so that others have a turn too; "
                                   "wait until one has ended, or stop one.")
            self._line.append(ticket)
        try:
            yield Place(self, ticket)
        finally:
            with self._change:
                self._line.remove(ticket)
                self._change.notify_all()

    def alone(self, act: Callable[[], None], seconds: float = 0.0) -> bool:
        """Do something short while nobody runs or waits, after waiting at most ``seconds`` for that; False where
        somebody still does."""
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
        """How many run or wait, whoever wants the rig to himself included."""
        with self._change:
            return len(self._line) + self._asking

    def ahead(self, ticket: Ticket, seconds: float) -> int:
        """How many are ahead of the ticket, after waiting at most ``seconds`` for none to be."""
        with self._change:
            if self._line[0] is not ticket:
                self._change.wait(seconds)
            return self._line.index(ticket)


class Place:
    """Somebody's place in the line."""

    def __init__(self, queue: RunQueue, ticket: Ticket) -> None:
        self._queue = queue
        self._ticket = ticket

    def ahead(self, seconds: float = 0.25) -> int:
        """How many runs come before; returns after ``seconds`` at the latest, at once when it is none."""
        return self._queue.ahead(self._ticket, seconds)
