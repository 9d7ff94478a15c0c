"""Forecasts for a known text: replays every method at every budget, and prices the rounds by the cost curve.

The text does not depend on the tree (if sampled, because the draw belongs to the position). So drafting at every
position and walking along the known text gives the acceptance lengths of every setting exactly. Speed is predicted from
the measured cost curve, and is labelled as predicted (design, contract 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.budget.auto import AutoBudget, best_order
from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import AUTO, FIXED, MOST_AUTO
from engine.decoding.methods import METHODS
from engine.lab.replay import Grower, KnownText, Replay, Step, replay
from engine.records import Sampling
from engine.trace import mean_length


@dataclass(frozen=True)
class Forecast:
    """One setting on the known text.

    ``budget`` counts drafted nodes as in ``Request``; it is the largest allowed where ``pace`` is ``auto``. Per round:
    ``lengths``, tokens kept, the root included; ``rows``, what the target verifies, the root included. ``build_ms``
    is the measured median of building and combining one round's trees. ``predicted_ms`` is the whole text's time
    without the prefill from the cost curve; 0 where no curve was given.
    """

    method: str
    split: str
    budget: int
    lengths: tuple[int, ...]
    rows: tuple[int, ...]
    build_ms: float = 0.0
    predicted_ms: float = 0.0
    pace: str = "fixed"

    @property
    def tokens(self) -> int:
        """The text's length: Σ lengths."""
        return sum(self.lengths)

    @property
    def tau(self) -> float:
        return mean_length(self.tokens, len(self.lengths))

    @property
    def predicted_tokens_per_second(self) -> float:
        """Predicted, never measured; 0 where no cost curve was given."""
        return 1e3 * self.tokens / self.predicted_ms if self.predicted_ms else 0.0


@dataclass(frozen=True)
class Gain:
    """What the n-th best drafted node of a method is worth, averaged over the rounds of its largest budget.

    Index n − 1 is the n-th node in descending cumulative probability. ``expected``: its mean cumulative probability
    under the drafter, in tokens. ``realised``: the share of rounds in which it was kept. Plotted against the curve's
    milliseconds per extra row, their crossing explains the best budget.
    """

    method: str
    split: str
    expected: tuple[float, ...]
    realised: tuple[float, ...]


@dataclass(frozen=True)
class WhatIf:
    """Every setting's forecast for one text, in the order of methods and then of budgets.

    ``departures`` counts the positions where one pass over the whole text chooses another token than the text has: 0 in
    float32; in bfloat16, rounding may cause some. ``seconds`` is the time that the what-if took, without measuring the
    cost curve.
    """

    prompt: str
    rig: str
    hardware: str
    dtype: str
    sampling: Sampling
    prompt_tokens: int
    tokens: int
    departures: int
    forecasts: tuple[Forecast, ...]
    gains: tuple[Gain, ...]
    cost: CostCurve | None
    seconds: float

    def of(self, method: str, split: str = "total") -> tuple[Forecast, ...]:
        """One method's forecasts by budget: a line of the plot."""
        return tuple(row for row in self.forecasts if (row.method, row.split) == (method, split))

    @property
    def withheld(self) -> str:
        """Why no speed is predicted from its cost curve, in a sentence; empty where it is, and without a curve."""
        return self.cost.disorder if self.cost else ""

    @property
    def best(self) -> Forecast | None:
        """The setting with the highest predicted tokens/s; None without a cost curve that a best can be read from."""
        if self.withheld:
            return None
        priced = [candidate for candidate in self.forecasts if candidate.predicted_ms]
        return max(priced, key=lambda candidate: candidate.predicted_tokens_per_second, default=None)


@dataclass(frozen=True)
class Point:
    """A line of the plot: a method, its split of the budget, and the drafters that serve it, in order."""

    method: str
    split: str
    drafters: tuple[str, ...]


def points(drafters: Mapping[str, Sequence[str]]) -> list[Point]:
    """A point for each method by name, one for each split that makes a difference; ``drafters`` by method."""
    places = []
    for method, names in drafters.items():
        places += [Point(method, split, tuple(names)) for split in METHODS[method].splits]
    return places


def builders_of(builders: Sequence[Point]) -> set[tuple[str, str]]:
    """The (drafter, builder) pairs that the points need a grower for."""
    return {(drafter, METHODS[point.method].build) for point in builders for drafter in point.drafters}


def forecasts(point: Point, budgets: Sequence[int], known: KnownText, growers: Mapping[tuple[str, str], Grower],
              curve: CostCurve | None) -> list[Forecast]:
    """The forecasts of a point at every budget and, with a curve, at ``auto``; without drafters, only at budget 0."""
    rounds = replay(point.method, point.split, growers, known, point.drafters)
    done = [forecast(point, budget, rounds, curve) for budget in (budgets if point.drafters else (0,))]
    return [*done, adaptive_forecast(point, rounds, curve)] if curve and point.drafters else done


def forecast(point: Point, budget: int, rounds: Replay, curve: CostCurve | None) -> Forecast:
    """One setting."""
    steps = list(rounds.steps(budget))
    build_ms = rounds.build_ms(budget, [step.place for step in steps])
    return _forecast(point, (budget, FIXED), steps, (build_ms, curve))


def adaptive_forecast(point: Point, rounds: Replay, curve: CostCurve) -> Forecast:
    """The forecast of a point with budget=auto."""
    steps = list(rounds.steps(MOST_AUTO, AutoBudget(curve)))
    usual = int(np.median([step.built for step in steps] or [0]))
    build_ms = rounds.build_ms(usual, [step.place for step in steps])
    return _forecast(point, (MOST_AUTO, AUTO), steps, (build_ms, curve))


def _forecast(point: Point, asked: tuple[int, str], steps: list[Step],
              price: tuple[float, CostCurve | None]) -> Forecast:
    build_ms, curve = price
    spent = sum(curve.round_ms(len(step.tree), step.built, step.drafter_count, build_ms) for step in steps
                ) if curve else 0.0
    lengths, rows = tuple(len(step.keep) for step in steps), tuple(len(step.tree) for step in steps)
    return Forecast(point.method, point.split, asked[0], lengths, rows, build_ms, spent, asked[1])


def gain(point: Point, budget: int, known: KnownText, growers: Mapping[tuple[str, str], Grower]) -> Gain:
    """What each further node is worth to a point, averaged over the rounds of this budget."""
    steps = list(replay(point.method, point.split, growers, known, point.drafters).steps(budget))
    most = max((len(step.tree) - 1 for step in steps), default=0)
    expected, realised = np.zeros(most), np.zeros(most)
    for step in steps:
        order = best_order(step.tree)[1:]
        expected[:len(order)] += np.exp(step.tree.logprobs[order])
        realised[:len(order)] += np.isin(order, step.keep)
    rounds = max(1, len(steps))
    return Gain(point.method, point.split, tuple((expected / rounds).tolist()), tuple((realised / rounds).tolist()))
