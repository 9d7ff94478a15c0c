"""A run's side of shared rounds: its requests to the thread that makes them, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from engine.budget.cost import RoundCost
from engine.decoding.loop import BatchRequest, RequestBatch
from engine.decoding.plan import Target
from engine.records import Round
from engine.trace import SharedPass

LEAVE, ROUND = object(), object()  # what a seat may wish for, besides a function for the rounds' thread to call


@dataclass(eq=False)
class Group:
    """The runs of one target, and what their rounds cost."""

    batch: RequestBatch
    cost: RoundCost = field(default_factory=RoundCost)


@dataclass(frozen=True)
class SharedRun:
    """A run to be answered, and its target; ``asks`` says in words what it asks the device for. The request is made
    only when the run begins, since its pace may have to be measured first."""

    target: Target
    request: Callable[[], BatchRequest]
    asks: str


class Seat:
    """A run that shares rounds."""

    def __init__(self, number: int, run: SharedRun, inbox: SimpleQueue[tuple[Seat, Any]]) -> None:
        self.number, self.run = number, run
        self.group: Group | None = None
        self.place, self.shares = -1, False  # its number in the group's batch; whether it shares the batch's row total
        self.wish: Any = None
        self.since = perf_counter()  # when its latest wish was made or granted
        self.late = True  # no round waits for it
        self.owed, self.rows = 0.0, 1  # see ``fairness``
        self._inbox = inbox
        self._outbox: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()

    def call(self, act: Callable[[], Any]) -> Any:
        """Call ``act`` in the rounds' thread, between two rounds, and return its result."""
        return self._wanted(act)

    def round(self) -> tuple[Round, SharedPass | None] | None:
        """The run's next round, and the pass that it shared with others, if any; None after its last."""
        answer: tuple[Round, SharedPass | None] | None = self._wanted(ROUND)
        return answer

    def leave(self) -> None:
        """Free the run's caches after the round in progress. Any thread may call it, the garbage collector's too."""
        self._inbox.put((self, LEAVE))

    def _wanted(self, wish: Any) -> Any:
        self._inbox.put((self, wish))
        given, error = self._outbox.get()
        if error is not None:
            raise error
        return given

    def give(self, given: Any, error: Exception | None = None) -> None:
        """Grant the wish, or raise the error in the reader's thread. Only the rounds' thread may call it."""
        self.wish, self.since, self.late = None, perf_counter(), False
        self._outbox.put((given, error))


class OwnRounds:
    """A ``Seat`` for a run that has the rig to itself."""

    def __init__(self, rounds: Generator[Round, None, None]) -> None:
        self._rounds = rounds

    def call(self, act: Callable[[], Any]) -> Any:
        return act()

    def round(self) -> tuple[Round, SharedPass | None] | None:
        latest = next(self._rounds, None)
        return None if latest is None else (latest, None)
