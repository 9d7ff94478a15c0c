"""The cost of shared rounds without measuring it: one request's curve, times powers of the number of requests that are
learnt from the rounds themselves.

Measuring a joint curve takes seconds for every number of requests, and the target to itself, while people wait for
texts. Where all joint curves are measured already, they are used as they are.
"""

from __future__ import annotations

from math import log

from engine.lab.cost import CostCurve, LoadCost, joined
from engine.lab.round_times import counted
from engine.lab.shared_pace import STEPS

PASS_POWER, DRAFT_POWER = 0.1, 0.5  # at first: eight requests take 1.2 times a lone pass over their rows, 2.8 drafts
LEAST_POWER, MOST_POWER = -0.5, 1.5
MEMORY = 0.97  # weight of what was learnt a round ago
RENEWED = 16  # rounds after which the curves are made anew from what was learnt
TWICE = 20  # rows more that double a pass

# In passes over one row, until a lone run has measured: only proportions decide how rows are divided.
UNMEASURED = CostCurve(
    "", "", "", "", 0, 0, STEPS, *(tuple(1 + (size - 1) / TWICE for size in STEPS),) * 3, (0.7,) * len(STEPS), 0.05,
    1.05)


class JointCosts:
    """The curves of one target's shared rounds, by the number of requests at once."""

    def __init__(self) -> None:
        self._lone, self._measured = UNMEASURED, False
        self._joint: LoadCost | None = None
        self.pass_power, self.draft_power = PASS_POWER, DRAFT_POWER
        self._curves: dict[int, CostCurve] = {}
        self._learnt = 0

    def rest_on(self, lone: CostCurve, joint: LoadCost | None = None) -> None:
        """Use measured curves from now on: that of a lone request and, if all are measured, those of several."""
        self._lone, self._measured, self._joint = lone, True, joint
        self._curves.clear()

    def curve(self, requests: int) -> CostCurve:
        """The curve of so many requests at once."""
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
        """Learn from a shared pass how long it took."""
        self.pass_power = self._learn(
            self.pass_power, requests, self.curve(requests).verify_low_at(rows), milliseconds)

    def learn_draft(self, requests: int, expected: float, milliseconds: float) -> None:
        """Learn from a shared draft for so many requests: the expected and the actual milliseconds."""
        self.draft_power = self._learn(self.draft_power, requests, expected, milliseconds)

    def _learn(self, power: float, requests: int, expected: float, milliseconds: float) -> float:
        if requests < 2 or not self._measured or self._joint or expected <= 0:
            return power
        dearer = counted(milliseconds / expected)
        self._learnt += 1
        if self._learnt % RENEWED == 0:
            self._curves.clear()
        seen = power + log(dearer) / log(requests)
        return min(MOST_POWER, max(LEAST_POWER, MEMORY * power + (1 - MEMORY) * seen))
