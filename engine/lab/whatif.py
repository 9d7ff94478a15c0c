"""Forecasts for a known text: replays every method at every budget, and prices the rounds by the cost curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.budget.auto import AutoBudget, best_order
from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import AUTO, FIXED, MOST_AUTO
from engine.decoding.methods import METHODS
from engine.lab.forecast import Forecast, Gain
from engine.lab.replay import Grower, KnownText, Replay, Step, replay


@dataclass(frozen=True)
class Point:
    """A line of the plot: a method, its split of the budget, and the drafters that serve it, in order."""

    method: str
    split: str
    drafters: tuple[str, ...]


def points(drafters: Mapping[str, Sequence[str]]) -> list[Point]:
    """A point for each method by name, one for each split that makes a difference; ``drafters`` by method."""
    found = []
    for method, names in drafters.items():
        found += [Point(method, split, tuple(names)) for split in METHODS[method].splits]
    return found


def builders_of(found: Sequence[Point]) -> set[tuple[str, str]]:
    """The (drafter, builder) pairs that the points need a grower for."""
    return {(drafter, METHODS[point.method].build) for point in found for drafter in point.drafters}


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
