"""How much longer a drafting round takes than a plain one, learnt from the rounds themselves.

A curve that was measured in a second beside other work may be wrong by half, and would stay so for the life of the
process. A choice depends on one proportion: the time that drafting takes beyond a plain round, in plain rounds. So one
factor on what the curve says of that is learnt. Measuring again would not be simpler: either somebody waits, or a
thread has to find out that nobody does, and on a machine that stays busy the second measurement is as rough as the
first. Learning every size would take hundreds of rounds. One factor is known after a dozen, keeps the curve's order of
sizes, and is 1 where the curve is right.

Other work on a machine comes and goes, so a drafting round is compared with plain rounds shortly before it, never with
the curve's own milliseconds. A run that always drafts makes a plain round to compare with after every 64 rounds, and
once the factor is known ever more rarely.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from math import exp, log
from statistics import fmean

from engine.lab.cost import CostCurve

PRIOR_ROUNDS = 5.0  # weight of the curve, in plain rounds of time beyond one
MEMORY = 0.97  # weight of the previous comparison
HELD_UP = 2.0  # times the expected time: the most that a round counts as, if other programs held it up
LEAST_FACTOR, MOST_FACTOR = 0.1, 10.0
COMPARED = 5  # plain rounds that a drafting round is compared with; each drafting round drops the earliest
FIRST_LOOK, RARER = 64, 2  # drafting rounds before a plain one is made for comparison, and how that number grows
KNOWN = 12  # comparisons from which on it grows


def counted(ratio: float) -> float:
    """A round's time over the expected time, as it counts: at most ``HELD_UP``, and no less than its inverse."""
    return min(HELD_UP, max(1 / HELD_UP, ratio))


class DraftExcess:
    """The factor for one curve, method and set of drafters, over all their runs."""

    def __init__(self) -> None:
        self.factor = 1.0
        self._expected = self._seen = PRIOR_ROUNDS
        self._look, self._unseen, self._compared = FIRST_LOOK, 0, 0

    @property
    def due(self) -> bool:
        """Whether a plain round has to be made for comparison."""
        return self._unseen >= self._look

    def plain(self) -> None:
        """A plain round was made."""
        if self.due and self._compared >= KNOWN:
            self._look *= RARER
        self._unseen = 0

    def drafted(self) -> None:
        """A drafting round was made."""
        self._unseen += 1

    def learn(self, expected: float, seen: float) -> float:
        """Learn from a drafting round that should have taken ``expected`` plain rounds beyond one, by the curve, and
        took ``seen`` plain rounds in all. Return by how many plain rounds it was cheaper than expected.

        Logarithms are compared, since other programs lengthen plain and drafting rounds alike, and then cancel out on
        average.
        """
        self._compared += 1
        usual = 1 + self.factor * expected
        cheaper = -usual * log(counted(seen / usual))
        self._expected = MEMORY * self._expected + (1 - MEMORY) * PRIOR_ROUNDS + expected
        self._seen = MEMORY * self._seen + (1 - MEMORY) * PRIOR_ROUNDS + usual - 1 - cheaper
        self.factor = min(MOST_FACTOR, max(LEAST_FACTOR, self._seen / self._expected))
        return cheaper


class DraftExcesses:
    """A rig's factors."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], DraftExcess] = defaultdict(DraftExcess)

    def of(self, curve: CostCurve, method: str, drafters: Sequence[object]) -> DraftExcess:
        """The factor of these drafter objects."""
        return self._found[curve, method, *map(id, drafters)]


class RunTimes:
    """What one run's rounds teach of the factor."""

    def __init__(self, excess: DraftExcess) -> None:
        self.excess = excess
        self._plain: deque[float] = deque(maxlen=COMPARED)  # logarithms of milliseconds

    def plain(self, milliseconds: float) -> None:
        """A plain round took this long."""
        self._plain.append(log(milliseconds))
        self.excess.plain()

    def forget(self) -> None:
        """Compare later rounds with none of the plain rounds so far."""
        self._plain.clear()

    def drafted(self, expected: float, milliseconds: float) -> float:
        """A drafting round took this long; the curve expected ``expected`` plain rounds beyond one. Return by how many
        plain rounds it was cheaper than expected, 0 where there is nothing to compare it with."""
        self.excess.drafted()
        if not self._plain:
            return 0.0
        usual = fmean(self._plain)
        self._plain.popleft()
        return self.excess.learn(expected, milliseconds / exp(usual))
