"""One model, one run at a time: who waits knows how many are ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition


class Turns:
    """A queue in order of arrival. A waiting run asks for its place as often as it likes and may leave at any time."""

    def __init__(self) -> None:
        self._change = Condition()
        self._line: deque[object] = deque()

    @contextmanager
    def place(self) -> Iterator[Place]:
        """A place at the end of the line, given up on leaving the block, served or not."""
        ticket = object()
        with self._change:
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
            if self._line:
                self._change.wait(seconds)
            if not self._line:
                act()
                return True
            return False

    def ahead(self, ticket: object, seconds: float) -> int:
        """How many are ahead of the ticket, after waiting at most ``seconds`` for none to be."""
        with self._change:
            if self._line[0] is not ticket:
                self._change.wait(seconds)
            return self._line.index(ticket)


class Place:
    """Somebody's place in the line."""

    def __init__(self, turns: Turns, ticket: object) -> None:
        self._turns = turns
        self._ticket = ticket

    def ahead(self, seconds: float = 0.25) -> int:
        """How many runs come before; returns after ``seconds`` at the latest, at once when it is none."""
        return self._turns.ahead(self._ticket, seconds)
