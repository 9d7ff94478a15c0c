"""Which runs take part in the next round: all that want one, unless one would then get less than its share of the rig.

Each of n runs is owed an n-th of the time. A round takes as long as all its rows need together, so a run of few rows
would spend most of its time waiting for a run of many. What a run gets from a round is counted as the time that the
round would have taken it alone. Where that is less than its share, the rig owes it the rest; a run that is owed more
than a round of its own takes the next one without the others. Where rows cost next to nothing, as on a GPU, that never
happens, and all runs take part in every round.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

MEMORY = 0.98  # weight of the previous round
ORIGIN = 0.5  # weight, in rounds, of a point at no rows and no time: until sizes differ, time is proportional to rows
SETTLED, HELD_UP = 3, 2.0  # after so many rounds, one that takes more than so many times its cost was held up


class RoundCost:
    """The seconds that a round takes by its number of rows: a line fitted to the recent rounds."""

    def __init__(self) -> None:
        self._count = self._rows = self._seconds = self._squares = self._products = 0.0

    def learn(self, rows: int, seconds: float) -> None:
        """Take note of a round. One that other programs held up counts as ``HELD_UP`` times its cost at most."""
        if self._count > SETTLED:
            seconds = min(seconds, HELD_UP * self.of(rows))
        self._count = MEMORY * self._count + 1
        self._rows = MEMORY * self._rows + rows
        self._seconds = MEMORY * self._seconds + seconds
        self._squares = MEMORY * self._squares + rows * rows
        self._products = MEMORY * self._products + rows * seconds

    def of(self, rows: int) -> float:
        """The seconds that a round of this many rows takes."""
        count = self._count + ORIGIN
        mean_rows, mean_seconds = self._rows / count, self._seconds / count
        spread = self._squares / count - mean_rows**2
        slope = max(0.0, (self._products / count - mean_rows * mean_seconds) / spread) if spread > 0 else 0.0
        return max(0.0, mean_seconds + slope * (rows - mean_rows))


class WaitingRun(Protocol):
    """A run that wants a round: the seconds that it is ``owed``, and the ``rows`` of its latest round."""

    owed: float
    rows: int


Run = TypeVar("Run", bound=WaitingRun)


def served(runs: Sequence[Run], cost: RoundCost) -> list[Run]:
    """Which of one target's runs take part in the next round."""
    return [run for run in runs if run.owed > cost.of(run.rows)] or list(runs)


def settle(wanting: Sequence[WaitingRun], inside: Collection[WaitingRun], cost: RoundCost) -> None:
    """After a round, update the seconds owed to each run that wanted one; ``inside`` are the runs that took part."""
    seconds = cost.of(sum(run.rows for run in inside))
    for run in wanting:
        given = cost.of(run.rows) if run in inside else 0.0
        run.owed = max(0.0, run.owed + seconds / len(wanting) - given)
