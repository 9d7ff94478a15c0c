"""How much more a round that drafts takes than a plain one, as the rounds themselves show, against what a curve says.

A curve that was measured in a second beside other work may be wrong by half, and would stay so for the life of the
process. What a choice turns on is one proportion, the time that drafting takes beyond a plain round, in plain rounds;
so that is learnt, as one factor on what the curve says of it. To measure again would be no smaller: somebody waits, or
a thread has to find out that nobody does, and on a machine that stays busy the second look is as rough as the first. To
learn every size would take hundreds of rounds. One factor is known after a dozen, leaves the curve's order of sizes as
it is, and is 1 where the curve is right.

A machine's other work comes and goes, so a round that drafts is compared with plain ones shortly before it, never
with the curve's own milliseconds. Who drafts all the time makes a plain round ever more rarely, to compare with.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from math import exp, log
from statistics import fmean

from engine.lab.cost import CostCurve

PRIOR_ROUNDS = 5.0  # plain rounds of time beyond one that stand for the curve's word
MEMORY = 0.97  # weight of what was seen a comparison ago
HELD_UP = 2.0  # times what is expected: a round that other work held up counts as so dear, and no dearer
LEAST_FACTOR, MOST_FACTOR = 0.1, 10.0
COMPARED = 5  # the last plain rounds that one is compared with; it takes the place of the earliest
FIRST_LOOK, RARER = 64, 2  # rounds that draft before a plain one is made to compare with; growth of that


class DraftExcess:
    """The factor for one curve, method and set of drafters, over all their runs."""

    def __init__(self) -> None:
        self.factor = 1.0
        self._expected = self._seen = PRIOR_ROUNDS
        self._look, self._unseen = FIRST_LOOK, 0

    @property
    def due(self) -> bool:
        """Whether a plain round is to be made, since there was none for long."""
        return self._unseen >= self._look

    def plain(self) -> None:
        """A plain round was made."""
        if self.due:
            self._look *= RARER
        self._unseen = 0

    def drafted(self) -> None:
        """A round that drafts was made."""
        self._unseen += 1

    def learn(self, expected: float, seen: float) -> float:
        """A round that drafts should have taken so many plain rounds beyond one, by the curve, and took so many times a
        plain round: how many it was cheaper than expected by now.

        Logarithms, since what holds rounds up only lengthens them, the plain ones as well: on average nothing is left
        of it.
        """
        usual = 1 + self.factor * expected
        cheaper = -usual * log(min(HELD_UP, max(1 / HELD_UP, seen / usual)))
        self._expected = MEMORY * self._expected + (1 - MEMORY) * PRIOR_ROUNDS + expected
        self._seen = MEMORY * self._seen + (1 - MEMORY) * PRIOR_ROUNDS + usual - 1 - cheaper
        self.factor = min(MOST_FACTOR, max(LEAST_FACTOR, self._seen / self._expected))
        return cheaper


class DraftExcesses:
    """A rig's factors."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], DraftExcess] = defaultdict(DraftExcess)

    def of(self, curve: CostCurve, method: str, drafters: Sequence[object]) -> DraftExcess:
        """The factor of these drafters themselves, not of their like."""
        return self._found[curve, method, *map(id, drafters)]


class RunTimes:
    """What one run's rounds teach of the factor."""

    def __init__(self, excess: DraftExcess) -> None:
        self.excess = excess
        self._plain: deque[float] = deque(maxlen=COMPARED)  # logarithms of milliseconds

    def plain(self, milliseconds: float) -> None:
        """A round without a draft took so long."""
        self._plain.append(log(milliseconds))
        self.excess.plain()

    def forget(self) -> None:
        """What comes is not compared with the plain rounds so far."""
        self._plain.clear()

    def drafted(self, expected: float, milliseconds: float) -> float:
        """A round that drafts took so long; by the curve so many plain rounds beyond one. How many it was cheaper than
        expected, 0 where there is nothing to compare it with."""
        self.excess.drafted()
        if not self._plain:
            return 0.0
        usual = fmean(self._plain)
        self._plain.popleft()
        return self.excess.learn(expected, milliseconds / exp(usual))
