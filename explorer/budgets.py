"""The page's panel Budget: a run at other budgets, predicted from its rounds so far (``engine/lab/redraft.py``), or a
recording's own curve."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Any, TypedDict

import numpy as np

from engine.budget.cost import CostCurve
from engine.decoding.options import check_option
from engine.errors import RequestError
from engine.lab.redraft import BUDGETS, BudgetCurve, Figures, Redrafting, modelled_speed
from engine.lab.repetition import repetition_in, rounds_within
from engine.records import MAX_BUDGET
from engine.requests.limits import check_int
from engine.trace import Entry, Header, Trace, pieces_of
from explorer.bounded_dict import BoundedDict
from explorer.browser_calls import Call, browser_call
from explorer.lines import encoded
from explorer.rig import CurrentRig

MAX_SAMPLED_ROUNDS = 128  # evenly chosen
MAX_NEW_LIVE_ROUNDS = 6  # per call, because redrafting slows down a run in progress
MAX_CACHED_RUNS = 16


class Band(TypedDict):
    """A value at each budget, with its 80 % interval."""

    mean: list[float]
    low: list[float]
    high: list[float]


class MeasuredCurve(TypedDict):
    """A recording's own τ and tokens/s at each budget with intervals, measured for its prompt. ``plain``: plain
    decoding's tokens/s."""

    budgets: list[int]
    tau: Band
    speed: Band
    plain: float


class BudgetForecast(TypedDict):
    """Predicted τ and speed at the budgets that the run's drafts fill, from ``rounds`` sampled rounds; ``candidates``:
    the nodes that these hold on average. ``plain``: plain decoding's tokens/s (0 if unknown). ``withheld``: why there
    is no speed, or why it is not to be compared."""

    budgets: list[int]
    rounds: int
    candidates: int
    tau: Band | None
    speed: Band | None
    plain: float
    withheld: str
    measured: MeasuredCurve | None


class Budgets:
    """The functions that the browser's Budget panel calls."""

    def __init__(self, rig: CurrentRig, trace_of: Callable[[str], Trace],
                 speed_of: Callable[[str], dict[str, Any]] = lambda run: {}) -> None:
        self._rig = rig
        self._trace_of = trace_of
        self._speed_of = speed_of
        self._read = BoundedDict[str, dict[int, Figures]](MAX_CACHED_RUNS)
        self._lock = Lock()

    def functions(self) -> list[Call]:
        return [browser_call("budgets", self.curve), browser_call("round_at", self.round_at)]

    def round_at(self, query: Mapping[str, Any]) -> bytes:
        """Return a round at another budget, as a line: {"run", "round": from 0, "budget"}."""
        drafts = Redrafting(trace := self._trace_of(str(query.get("run"))))
        number = check_int("The round", query.get("round"), 0, len(trace.entries) - 1)
        budget = check_option("budget", query.get("budget"))
        entry = trace.entries[number]
        if not entry.round.drafts:
            raise RequestError("This round drafted nothing, so there is nothing to build another tree from.")
        round_ = drafts.round_at(entry.round, budget)
        return encoded(Entry(replace(round_, candidates=()), {}, entry.elapsed_seconds))

    def curve(self, query: Mapping[str, Any]) -> BudgetForecast:
        """Predict τ and speed of {"run", "live": whether it goes on} at every budget that its drafts fill.

        Speeds come from the measured cost curve, scaled to match the run's own speed: the one measured beside plain
        decoding, else that of its rounds. No speed is predicted if curve and run disagree."""
        run = str(query.get("run"))
        trace = self._trace_of(run)
        curve = self._curve(run, trace, bool(query.get("live")))
        view: BudgetForecast = {
            "budgets": list(curve.budgets), "rounds": len(curve.kept), "candidates": 0, "tau": None, "speed": None,
            "plain": 0.0, "withheld": "", "measured": None}
        compared = self._speed_of(run)
        measured = compared if compared and not compared["withheld"] else {}
        if trace.header.curve and measured:
            view["measured"] = recorded_curve(trace.header, float(measured["plain_speed"]))
        if not len(curve.kept):  # what a text repeats is left out too
            return view
        view["candidates"], curve = curve.candidates, curve.predictable()
        view["budgets"] = list(curve.budgets)
        view["tau"], (cost, view["withheld"]) = _band(curve.tau), self._cost(trace)
        if cost and (modelled := modelled_speed(trace, cost)) is None:
            view["withheld"] = "No round was timed alone, so no speed is predicted."
        elif cost and modelled:
            view["withheld"] = modelled.curve_problem(measured.get("ratio", 0.0))
            speed = float(measured["speed"]) if measured else modelled.measured
            scale = speed / modelled.predicted
            view["plain"] = float(measured["plain_speed"]) if measured else modelled.predicted_plain * scale
            view["speed"] = None if view["withheld"] else _band(curve.speed(cost, scale))
        view["withheld"] = compared.get("withheld") or view["withheld"]
        return view

    def fastest(self, run: str) -> int:
        """Return the budget that is predicted to be the fastest for an ended run, 0 if unknown."""
        with suppress(RequestError):  # of methods that cannot be drafted again
            view = self.curve({"run": run})
            return view["budgets"][int(np.argmax(view["speed"]["mean"]))] if view["speed"] else 0
        return 0

    def _curve(self, run: str, trace: Trace, live: bool) -> BudgetCurve:
        run_budget = trace.header.request.budget
        budgets = sorted({*BUDGETS, *([run_budget] if 0 < run_budget <= MAX_BUDGET else [])})
        drafts = Redrafting(trace)
        rounds = trace.rounds
        start = repetition_in(rounds, pieces_of(trace))
        count = len(rounds) if start is None else rounds_within(rounds, start)
        usable = [number for number, round_ in enumerate(rounds[:count]) if drafts.is_replayable(round_)]
        usable = usable[::-(-len(usable) // MAX_SAMPLED_ROUNDS) or 1]
        with self._lock:
            read = self._read[run] = self._read.get(run, {})
            new = [number for number in usable if number not in read]
            for number in new[:MAX_NEW_LIVE_ROUNDS] if live else new:
                read[number] = drafts.kept_and_rows(trace.entries[number].round, budgets)
            figures = [read[number] for number in (sorted(read) if live else usable)]
        kept, rows = np.asarray(figures, np.float64).reshape(-1, 2, len(budgets)).swapaxes(0, 1)
        return BudgetCurve(trace, budgets, kept, rows)

    def _cost(self, trace: Trace) -> tuple[CostCurve | None, str]:
        """Return the measured cost curve, or why no speed is predicted."""
        source, header = self._rig.source, trace.header
        if (header.rig, header.hardware) != (source.name, source.hardware):
            return None, f"Made by the {header.rig} on {header.hardware}: what a pass costs there is not known here."
        cost = self._rig.instruments.known_cost(trace)
        if cost is None:
            return None, "What a pass costs here is measured after the run."
        return (None, cost.unusable_reason) if cost.unusable_reason else (cost, "")


def recorded_curve(header: Header, plain_speed: float) -> MeasuredCurve:
    """Return a recording's own curve, in tokens/s of its plain decoding."""
    budgets, tau, *speeds = zip(*((point.budget, point.tau, point.ratio, point.low, point.high)
                                  for point in header.curve), strict=True)
    mean, low, high = (np.round(plain_speed * np.asarray(ratios), 2).tolist() for ratios in speeds)
    return {"budgets": list(budgets), "tau": {"mean": list(tau), "low": list(tau), "high": list(tau)},
            "speed": {"mean": mean, "low": low, "high": high}, "plain": plain_speed}


def _band(curves: tuple[Figures, Figures, Figures]) -> Band:
    mean, low, high = (np.round(curve, 3).tolist() for curve in curves)
    return {"mean": mean, "low": low, "high": high}
