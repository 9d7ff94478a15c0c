"""A sweep as the page takes it: the table, the recommended setting, its curves, its rounds by setting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from engine.errors import RequestError
from engine.lab.forecast import WhatIf
from engine.lab.settings import Measured, Reading, Setting
from engine.lab.statistics import Estimate, estimate
from engine.lab.summary import Row, Summary
from engine.methods import METHODS
from engine.pace import FIXED, PACES
from explorer.lab_curves import curves_figure
from explorer.lab_names import label_of, line_of
from explorer.lab_spots import Spot, predicted, single, swept
from explorer.view import View

MOST_POINTS = 1000  # single runs that a browser may send along


def spots_of(summary: Summary) -> list[Spot]:
    """A point of the curves for each row of the table."""
    return [Spot(row.setting, row.tau, row.tokens_per_second) for row in summary.rows]


def table_view(summary: Summary) -> View:
    """The table, the fastest first: {rows, best, remark}. ``best`` is the row with the most tokens/s of those that
    are lossless; ``remark`` says in a sentence how sure that is."""
    ordered = sorted(summary.rows, key=lambda row: -row.tokens_per_second.median)
    rows = [row_view(row, summary.best) for row in ordered]
    return {"rows": rows, "best": next((row for row in rows if row["best"]), None), "remark": remark(summary)}


def row_view(row: Row, best: Row | None) -> View:
    """A row as JSON values."""
    setting = row.setting
    return {
        "label": label_of(setting), "line": line_of(setting), "method": setting.method, "budget": setting.budget,
        "split": setting.split, "pace": setting.pace, "nodes": setting.nodes,
        "tau": asdict(row.tau), "speed": asdict(row.tokens_per_second),
        "speedup": asdict(row.speedup) if row.speedup else None, "runs": row.runs, "failed": row.failed,
        "same_text": row.same_text, "compared": row.compared, "lossless": METHODS[setting.method].lossless,
        "best": row is best}


def remark(summary: Summary) -> str:
    """How clear the lead of the fastest setting is: whose intervals reach up to its median."""
    best = summary.best
    if best is None:
        return ""
    prompts = best.tokens_per_second.prompts
    if best.tokens_per_second.low is None:
        return f"Over {prompts} prompt{'s' if prompts > 1 else ''}; six or more give 95 % intervals."
    close = [row for row in summary.rows if row is not best and METHODS[row.setting.method].lossless
             and (row.tokens_per_second.high or 0) >= best.tokens_per_second.low
             and row.tokens_per_second.median >= 0.95 * best.tokens_per_second.median]
    if not close:
        return f"Over {prompts} prompts; no other setting comes within 5 %."
    names = ", ".join(label_of(row.setting) for row in sorted(
        close, key=lambda row: -row.tokens_per_second.median)[:3])
    return f"Over {prompts} prompts. Within 5 %, so not told apart by this measurement: {names}."


def single_spots(points: Iterable[Mapping[str, Any]]) -> list[Spot]:
    """The single runs that a browser remembers, a spot for each setting. What is malformed is left out: the browser
    may have been closed while it wrote."""
    runs: dict[Setting, list[tuple[float, float]]] = defaultdict(list)
    for point in list(points)[-MOST_POINTS:]:
        found = _point(point)
        if found is not None:
            runs[found[0]].append(found[1])
    return [Spot(setting, estimate([tau for tau, _ in values]), estimate([speed for _, speed in values]), "runs")
            for setting, values in runs.items()]


def _point(point: Any) -> tuple[Setting, tuple[float, float]] | None:
    try:
        setting = Setting(str(point["method"]), int(point["budget"]), str(point.get("split") or "total"),
                          temperature=float(point.get("temperature") or 0), pace=str(point.get("pace") or FIXED))
        values = float(point["tau"]), float(point["tokens_per_second"])
    except (TypeError, ValueError, LookupError, AttributeError):
        return None
    known = setting.method in METHODS and setting.pace in PACES and setting.budget >= 0
    fits = known and all(isfinite(value) and value > 0 for value in values)
    return (setting, values) if fits else None


def predicted_spots(found: WhatIf) -> list[Spot]:
    """A what-if's forecasts with a predicted speed."""
    temperature = found.sampling.temperature
    return [Spot(Setting(each.method, each.budget, each.split, temperature=temperature, pace=each.pace),
                 _exactly(each.tau), _exactly(each.predicted_tokens_per_second), "texts")
            for each in found.forecasts if each.predicted_ms]


def _exactly(value: float) -> Estimate:
    return Estimate(value, None, None, value, value, 1)


def curves_view(summary: Summary, points: Iterable[Mapping[str, Any]], found: WhatIf | None) -> View:
    """{figure, count}: the curves of a sweep, of single runs and of a what-if; count is how many spots there are."""
    layers = [swept(spots_of(summary)), single(single_spots(points)),
              predicted(predicted_spots(found) if found else [])]
    best = summary.best
    marked = next((spot for spot in layers[0].spots if best and spot.setting == best.setting), None)
    return {"figure": curves_figure(layers, marked), "count": sum(len(layer.spots) for layer in layers)}


def readings_at(measured: Sequence[Measured], nodes: str) -> dict[tuple[str, str], list[Reading]]:
    """The readings of every drafting setting with that budget, a number or ``auto``, by method and curve; RequestError
    where none is."""
    found: dict[tuple[str, str], list[Reading]] = defaultdict(list)
    for each in measured:
        setting = each.cell.setting
        if each.reading and setting.nodes == nodes and METHODS[setting.method].heads:
            found[setting.method, line_of(setting)].append(each.reading)
    if not found:
        raise RequestError(f"Nothing was measured at the budget {nodes[:20]!r} yet; choose another one.")
    return dict(found)
