"""What rounds that come and go share cost, without measuring them: the curve of one request, and how shared rounds
grow with their requests, learnt from those that are made anyhow.

A measured joint curve takes seconds for every number of requests and the target to itself, which is nowhere to be had
while somebody waits for a text. Where all of them are known, since somebody measured them, they serve as they are.
"""

from __future__ import annotations

from math import log

from engine.lab.cost import CostCurve, LoadCost, joined
from engine.lab.shared_pace import STEPS

PASS_POWER, DRAFT_POWER = 0.1, 0.5  # at first: eight requests take 1.2 times a lone pass over their rows, 2.8 drafts
LEAST_POWER, MOST_POWER = -0.5, 1.5
MEMORY = 0.97  # weight of what was seen a round ago
HELD_UP = 2.0  # times what is expected: a round that other work held up counts as so dear, and no dearer
RENEWED = 16  # rounds after which curves are made anew by what was learnt
TWICE = 20  # rows more that double a pass

# In passes of a row, until a lone run has measured: only proportions decide how rows are given.
UNMEASURED = CostCurve(
    "", "", "", "", 0, 0, STEPS, *(tuple(1 + (size - 1) / TWICE for size in STEPS),) * 3, (0.7,) * len(STEPS), 0.05,
    1.05)


class JointCosts:
    """The curves by requests at once of one target's shared rounds."""

    def __init__(self) -> None:
        self._lone, self._measured = UNMEASURED, False
        self._joint: LoadCost | None = None
        self.pass_power, self.draft_power = PASS_POWER, DRAFT_POWER
        self._curves: dict[int, CostCurve] = {}
        self._learnt = 0

    def rest_on(self, lone: CostCurve, joint: LoadCost | None = None) -> None:
        """What was measured: of a lone request, and of several where all numbers of them were."""
        self._lone, self._measured, self._joint = lone, True, joint
        self._curves.clear()

    def curve(self, requests: int) -> CostCurve:
        """Of so many requests at once."""
        if requests not in self._curves:
            self._curves[requests] = self._made(requests)
        return self._curves[requests]

    def _made(self, requests: int) -> CostCurve:
        if requests == 1:
            return self._lone
        if self._joint:
            return self._joint(requests)
        return joined(self._lone, requests, self.pass_power, self.draft_power)

    def learn_pass(self, requests: int, rows: int, milliseconds: float) -> None:
        """A shared pass took so long."""
        self.pass_power = self._learn(
            self.pass_power, requests, self.curve(requests).verify_low_at(rows), milliseconds)

    def learn_draft(self, requests: int, expected: float, milliseconds: float) -> None:
        """A shared draft for so many of the requests was expected to take so long, and took so long."""
        self.draft_power = self._learn(self.draft_power, requests, expected, milliseconds)

    def _learn(self, power: float, requests: int, expected: float, milliseconds: float) -> float:
        if requests < 2 or not self._measured or self._joint or expected <= 0:
            return power
        dearer = min(HELD_UP, max(1 / HELD_UP, milliseconds / expected))
        self._learnt += 1
        if self._learnt % RENEWED == 0:
            self._curves.clear()
        seen = power + log(dearer) / log(requests)
        return min(MOST_POWER, max(LEAST_POWER, MEMORY * power + (1 - MEMORY) * seen))
