"""The points of the curves: settings with their estimates, their layers, and their places on the axis of budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.decoding.budget_policy import AUTO, FIXED
from engine.decoding.methods import METHODS
from engine.lab.settings import Setting
from engine.lab.statistics import Estimate
from explorer.lab.names import label_of, line_of


@dataclass(frozen=True)
class CurvePoint:
    """A setting with its τ and tokens/s. ``of`` says what the estimates are over: prompts or runs."""

    setting: Setting
    tau: Estimate
    speed: Estimate
    of: str = "prompts"

    @property
    def line(self) -> str:
        """The curve that it belongs to: the method and what else is set besides the budget."""
        return line_of(self.setting)

    @property
    def label(self) -> str:
        """``ddtree, 64 nodes``."""
        return label_of(self.setting)

    @property
    def paced(self) -> bool:
        """Whether every round chooses its own budget."""
        return self.setting.pace != FIXED

    @property
    def drafts(self) -> bool:
        """Whether it drafts any nodes."""
        return METHODS[self.setting.method].drafter_count > 0


@dataclass(frozen=True)
class CurveLayer:
    """Points of one kind, drawn in one way: what was swept, single runs, what is predicted."""

    name: str
    points: Sequence[CurvePoint]
    suffix: str = ""
    width: float = 2.2
    opacity: float = 1.0
    size: int = 8
    sides: Sequence[str] = ("tau", "speed")


def swept(points: Sequence[CurvePoint]) -> CurveLayer:
    """Measured by a sweep: full lines."""
    return CurveLayer("swept", points)


def single(points: Sequence[CurvePoint]) -> CurveLayer:
    """Runs that were asked for one by one: open markers, faint lines."""
    return CurveLayer("runs", points, ", single runs", 1.0, 0.75, 7)


def predicted(points: Sequence[CurvePoint], *, speed: bool = True) -> CurveLayer:
    """Predicted, not measured: thin lines without markers; without ``speed`` of τ alone."""
    sides = ("tau", "speed") if speed else ("tau",)
    return CurveLayer("predicted", points, ", predicted", 1.4, 0.8, 0, sides)


@dataclass(frozen=True)
class Scale:
    """The shared axis, which Plotly draws logarithmic: budgets in their own places, 0 in that of half the smallest
    budget, and ``auto``, which has no number, in that of twice the largest."""

    budgets: tuple[int, ...]
    paced: bool = False

    @property
    def zero(self) -> float:
        """Where a budget of 0 stands."""
        positive = [budget for budget in self.budgets if budget > 0]
        return min(positive) / 2 if positive else 1.0

    def place(self, budget: int) -> float:
        """Where a budget stands."""
        return budget if budget > 0 else self.zero

    @property
    def auto(self) -> float | None:
        """Where ``auto`` stands, if anything does."""
        return 2 * self.place(max(self.budgets, default=1)) if self.paced else None

    def at(self, point: CurvePoint) -> float:
        """Where a point stands."""
        return self.auto if self.auto is not None and point.paced else self.place(point.setting.budget)

    def ticks(self) -> dict[str, Any]:
        """A tick for each budget."""
        places = [(self.place(budget), str(budget)) for budget in self.budgets]
        if self.auto is not None:
            places.append((self.auto, AUTO))
        return {"tickvals": [place for place, _ in places], "ticktext": [text for _, text in places]}

    def across(self) -> list[float]:
        """The ends of a line that no budget changes."""
        return [self.zero, self.place(max(self.budgets, default=1)) if self.auto is None else self.auto]


def in_words(point: CurvePoint, side: str) -> str:
    """A point in words, for its tooltip."""
    value: Estimate = getattr(point, side)
    unit, digits = ("tokens per round", 2) if side == "tau" else ("tokens/s", 0)
    figure = f"<b>{point.label}</b><br>{value.median:,.{digits}f} {unit}"
    if value.prompts < 2:
        return figure
    if value.low is None or value.high is None:
        return f"{figure}<br>{value.prompts} {point.of}, {value.least:,.{digits}f} to {value.most:,.{digits}f}"
    return f"{figure}<br>{value.prompts} {point.of}, 95 %: {value.low:,.{digits}f} to {value.high:,.{digits}f}"
