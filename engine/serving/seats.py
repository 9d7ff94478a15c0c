"""A run's side of shared rounds, and which runs take part in the next one: all that want one, unless one would then get
less than its part of the rig.

Each of n runs is owed an n-th of the time. A round takes as long as all its rows need together, so a run of few rows
would spend most of its time waiting for a run of many. What a run gets from a round is counted as the time that the
round would have taken it alone. Where that is less than its part, the rig owes it the rest; a run that is owed more
than a round of its own takes the next one without the others. Where rows cost next to nothing, as on a GPU, that never
happens, and all runs take part in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Protocol, TypeVar

from engine.budget.cost import RoundCost
from engine.decoding.loop import BatchRequest
from engine.records import Round
from engine.trace import SharedPass

LEAVE, ROUND = object(), object()  # what a seat may wish for, besides a function for the rounds' thread to call


@dataclass(frozen=True)
class SharedRun:
    """A run to be answered; ``asks`` says in words what it asks the device for. The request is made only when the run
    begins, since its pace may have to be measured first."""

    request: Callable[[], BatchRequest]
    asks: str


class Seat:
    """A run that shares rounds."""

    def __init__(self, number: int, run: SharedRun, inbox: SimpleQueue[tuple[Seat, Any]]) -> None:
        self.number, self.run = number, run
        self.place: int | None = None  # its number in the batch, once its prompt was read
        self.shares = False  # whether it shares the batch's total of rows
        self.wish: Any = None
        self.since = perf_counter()  # when its latest wish was made or granted
        self.late = True  # no round waits for it
        self.owed, self.rows = 0.0, 1  # see ``WaitingRun``
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


class WaitingRun(Protocol):
    """A run that wants a round: the seconds that it is ``owed``, and the ``rows`` of its latest round."""

    owed: float
    rows: int


Run = TypeVar("Run", bound=WaitingRun)


def pick_batch(runs: Sequence[Run], cost: RoundCost) -> list[Run]:
    """Which runs take part in the next round."""
    return [run for run in runs if run.owed > cost.of(run.rows)] or list(runs)


def update_deficits(wanting: Sequence[WaitingRun], inside: Collection[WaitingRun], cost: RoundCost) -> None:
    """After a round, update the seconds owed to each run that wanted one; ``inside`` are the runs that took part."""
    seconds = cost.of(sum(run.rows for run in inside))
    for run in wanting:
        given = cost.of(run.rows) if run in inside else 0.0
        run.owed = max(0.0, run.owed + seconds / len(wanting) - given)
