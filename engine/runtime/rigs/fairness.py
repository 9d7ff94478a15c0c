"""Which runs take part in the next round: all that want one, unless one would then get less than its share of the rig.

Of n runs each is owed an n-th of the time. A round takes as long as all its rows together, so a run of few rows beside
one of many would wait most of its time. What a run gets of a round is counted as what the round would have taken it
alone; where that is less than its part, it is owed the rest, and whoever is owed more than a round of his own has the
next one without the others. Where rows are all but free, as on a GPU, nobody ever is, and every round is everybody's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

MEMORY = 0.98  # weight of the previous round
ORIGIN = 0.5  # rounds that no rows in no time stand for: until sizes differ, a row's part of the time is its own

SETTLED, HELD_UP = 3, 2.0  # rounds, and from how many times what they take on a round tells of other work


class RoundCost:
    """Seconds of a round by its rows: a line through the recent rounds."""

    def __init__(self) -> None:
        self._count = self._rows = self._seconds = self._squares = self._products = 0.0

    def learn(self, rows: int, seconds: float) -> None:
        """Take note of a round. One that was held up by other work counts as a slow one, and no more than that."""
        if self._count > SETTLED:
            seconds = min(seconds, HELD_UP * self.of(rows))
        self._count = MEMORY * self._count + 1
        self._rows = MEMORY * self._rows + rows
        self._seconds = MEMORY * self._seconds + seconds
        self._squares = MEMORY * self._squares + rows * rows
        self._products = MEMORY * self._products + rows * seconds

    def of(self, rows: int) -> float:
        """Seconds of a round of this many rows."""
        count = self._count + ORIGIN
        mean_rows, mean_seconds = self._rows / count, self._seconds / count
        spread = self._squares / count - mean_rows**2
        slope = max(0.0, (self._products / count - mean_rows * mean_seconds) / spread) if spread > 0 else 0.0
        return max(0.0, mean_seconds + slope * (rows - mean_rows))


class Sharing(Protocol):
    """A run that wants a round: the seconds that it is ``owed``, and the ``rows`` of its latest round."""

    owed: float
    rows: int


Run = TypeVar("Run", bound=Sharing)


def served(runs: Sequence[Run], cost: RoundCost) -> list[Run]:
    """Which of one target's runs take part in the next round."""
    return [run for run in runs if run.owed > cost.of(run.rows)] or list(runs)


def settle(wanting: Sequence[Sharing], inside: Collection[Sharing], cost: RoundCost) -> None:
    """After a round: update what each run that wanted one is owed, by what such a round takes."""
    seconds = cost.of(sum(run.rows for run in inside))
    for run in wanting:
        given = cost.of(run.rows) if run in inside else 0.0
        run.owed = max(0.0, run.owed + seconds / len(wanting) - given)
