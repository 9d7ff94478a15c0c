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

from engine.budget.cost import RoundCost


class WaitingRun(Protocol):
    """A run that wants a round: the seconds that it is ``owed``, and the ``rows`` of its latest round."""

    owed: float
    rows: int


Run = TypeVar("Run", bound=WaitingRun)


def pick_batch(runs: Sequence[Run], cost: RoundCost) -> list[Run]:
    """Which of one target's runs take part in the next round."""
    return [run for run in runs if run.owed > cost.of(run.rows)] or list(runs)


def update_deficits(wanting: Sequence[WaitingRun], inside: Collection[WaitingRun], cost: RoundCost) -> None:
    """After a round, update the seconds owed to each run that wanted one; ``inside`` are the runs that took part."""
    seconds = cost.of(sum(run.rows for run in inside))
    for run in wanting:
        given = cost.of(run.rows) if run in inside else 0.0
        run.owed = max(0.0, run.owed + seconds / len(wanting) - given)
