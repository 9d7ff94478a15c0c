"""A run's side of shared rounds: what it asks of the thread that makes them, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from engine.decoding.plan import Target
from engine.decoding.together import BatchRequest, RequestBatch
from engine.records import Round
from engine.runtime.rigs.fairness import RoundCost
from engine.trace import SharedPass

LEAVE, ROUND = object(), object()  # what a seat may say, besides an act for the rounds' thread to do


@dataclass(eq=False)
class Group:
    """The runs of one target, and what their rounds cost."""

    batch: RequestBatch
    cost: RoundCost = field(default_factory=RoundCost)


@dataclass(frozen=True)
class SharedRun:
    """What is answered, and by which target; ``asks`` says what that asks the device for. The request is only made
    when the run is begun, since its pace may have to be measured first."""

    target: Target
    request: Callable[[], BatchRequest]
    asks: str


class Seat:
    """A run that shares rounds."""

    def __init__(self, number: int, run: SharedRun, inbox: SimpleQueue[tuple[Seat, Any]]) -> None:
        self.number, self.run = number, run
        self.group: Group | None = None
        self.place = -1  # in the group's batch
        self.wish: Any = None
        self.since = perf_counter()  # when it said what it wants, or was given it
        self.late = True  # nobody waits for it
        self.owed, self.rows = 0.0, 1  # see ``fairness``
        self._inbox = inbox
        self._outbox: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()

    def let(self, act: Callable[[], Any]) -> Any:
        """Run the act in the rounds' thread, between two rounds, and return its result."""
        return self._wanted(act)

    def round(self) -> tuple[Round, SharedPass | None] | None:
        """The run's next round, and the company that shared it; None after its last."""
        made: tuple[Round, SharedPass | None] | None = self._wanted(ROUND)
        return made

    def leave(self) -> None:
        """Free the run's caches once the round in progress is made. Any thread may call it, even one that only tidies
        up."""
        self._inbox.put((self, LEAVE))

    def _wanted(self, wish: Any) -> Any:
        self._inbox.put((self, wish))
        given, error = self._outbox.get()
        if error is not None:
            raise error
        return given

    def give(self, given: Any, error: Exception | None = None) -> None:
        """Answer what was asked. Only the thread of the rounds may call it."""
        self.wish, self.since, self.late = None, perf_counter(), False
        self._outbox.put((given, error))


class OwnRounds:
    """The same for a run that has the rig to itself."""

    def __init__(self, rounds: Generator[Round, None, None]) -> None:
        self._rounds = rounds

    def let(self, act: Callable[[], Any]) -> Any:
        """See ``Seat``."""
        return act()

    def round(self) -> tuple[Round, SharedPass | None] | None:
        """See ``Seat``."""
        made = next(self._rounds, None)
        return None if made is None else (made, None)
