"""A sweep as the page shows it: the table, the recommended setting, its curves, its rounds by setting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from engine.decoding.budget_policy import FIXED, PACES
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.lab.findings import unsteady
from engine.lab.settings import CellResult, Reading, Setting
from engine.lab.statistics import estimate
from engine.lab.summary import Row, Summary
from engine.lab.whatif import WhatIf
from explorer.lab.cost import predicted_points, predicted_view
from explorer.lab.curves import CurvePoint, curves_figure, predicted, single, swept
from explorer.lab.style import label_of, line_of
from explorer.view import View

WITHIN = 0.95  # of the fastest setting's median: what comes so near is named
MOST_NAMED = 3
MOST_RUNS = 1000  # single runs that a browser may send along


def points_of(summary: Summary) -> list[CurvePoint]:
    """A point of the curves for each row of the table."""
    return [CurvePoint(row.setting, row.tau, row.total) for row in summary.rows]


def table_view(summary: Summary) -> View:
    """The table of one number of requests at once, the fastest first: {rows, best, remark}. ``best`` is the row with
    the most tokens/s, all requests together, of those that are lossless; ``remark`` says in a sentence how sure that
    is."""
    ordered = sorted(summary.rows, key=lambda row: -row.total.median)
    rows = [row_view(row, summary.best) for row in ordered]
    return {"rows": rows, "best": next((row for row in rows if row["best"]), None), "remark": remark(summary),
            "standing": standing(summary.best)}


def standing(best: Row | None) -> str:
    """How the fastest setting compares with plain decoding: ``plain`` where it is plain decoding, ``withheld`` where
    its speed-up may not be said, ``few`` where too few prompts give no interval, ``unclear`` where the interval of the
    speed-up contains 1, else ``faster``; empty without a row."""
    if best is None:
        return ""
    if not METHODS[best.setting.method].drafter_count:
        return "plain"
    if best.withheld:
        return "withheld"
    if best.speedup is None:
        return ""
    if best.speedup.low is None:
        return "few"
    return "faster" if best.speedup.low > 1 else "unclear"


def busy_words(summary: Summary) -> str:
    """A sentence that other programs were using the machine; empty where plain decoding ran steadily."""
    for row in summary.rows:
        plain = row.total
        if row.setting == row.setting.baseline and unsteady(plain.least, plain.median, plain.most):
            return (f" Plain decoding alone ran at {plain.least:,.0f} to {plain.most:,.0f} tokens/s, so other programs "
                    "were using this machine, and no speed-up is said: measure again when it is quiet.")
    return ""


def row_view(row: Row, best: Row | None) -> View:
    """A row as JSON values."""
    setting = row.setting
    return {
        "label": label_of(setting), "line": line_of(setting), "method": setting.method, "budget": setting.budget,
        "split": setting.split, "pace": setting.pace, "nodes": setting.nodes,
        "tau": asdict(row.tau), "speed": asdict(row.total), "each": asdict(row.tokens_per_second),
        "concurrency": setting.concurrency,
        "speedup": asdict(row.speedup) if row.speedup else None, "withheld": row.withheld,
        "runs": row.runs, "failed": row.failed, "same_text": row.same_text, "compared": row.compared,
        "lossless": METHODS[setting.method].lossless, "best": row is best}


def remark(summary: Summary) -> str:
    """How clear the lead of the fastest setting is, in a sentence, with the settings that come close."""
    best = summary.best
    if best is None:
        return ""
    busy = busy_words(summary)
    withheld = f" {best.withheld}" if best.withheld and not busy else ""
    prompts = best.total.prompts
    return f"Over {prompts} prompt{'s' if prompts > 1 else ''}{_lead(summary, best)}{withheld}{busy}"


def _lead(summary: Summary, best: Row) -> str:
    if best.total.low is None:
        return "; six or more give 95 % intervals."
    if standing(best) == "plain":
        return " no drafter paid on this machine."
    if standing(best) == "unclear" and best.speedup:
        return (f" its speed-up lies between {best.speedup.low:.2f}× and {best.speedup.high:.2f}×, so it may be no "
                "speed-up at all; more prompts would tell.")
    others = [row for row in summary.rows if row is not best and METHODS[row.setting.method].lossless]
    if overlapping := [row for row in others if (row.total.high or row.total.most) >= best.total.low]:
        return f". Its 95 % interval overlaps with that of {_named(overlapping)}, so it may not be the fastest."
    if near := [row for row in others if row.total.median >= WITHIN * best.total.median]:
        return f". Within 5 % of it: {_named(near)}."
    return "; no other setting comes within 5 %."


def _named(rows: Sequence[Row]) -> str:
    """Rows by name, the fastest first, and how many more there are."""
    ordered = sorted(rows, key=lambda row: -row.total.median)
    more = len(ordered) - MOST_NAMED
    names = [label_of(row.setting) for row in ordered[:MOST_NAMED]]
    return "; ".join(names) + (f" and {more} other{'s' if more > 1 else ''}" if more > 0 else "")


def single_points(runs: Iterable[Mapping[str, Any]]) -> list[CurvePoint]:
    """The single runs that a browser remembers, a point for each setting. What is malformed is left out: the browser
    may have been closed while it wrote."""
    by_setting: dict[Setting, list[tuple[float, float]]] = defaultdict(list)
    for run in list(runs)[-MOST_RUNS:]:
        point = _point_of(run)
        if point is not None:
            by_setting[point[0]].append(point[1])
    return [CurvePoint(setting, estimate([tau for tau, _ in values]), estimate([speed for _, speed in values]), "runs")
            for setting, values in by_setting.items()]


def _point_of(run: Any) -> tuple[Setting, tuple[float, float]] | None:
    try:
        setting = Setting(str(run["method"]), int(run["budget"]), str(run.get("split") or "total"),
                          temperature=float(run.get("temperature") or 0), pace=str(run.get("pace") or FIXED))
        values = float(run["tau"]), float(run["tokens_per_second"])
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError):
        return None
    known = setting.method in METHODS and setting.pace in PACES and setting.budget >= 0
    fits = known and all(isfinite(value) and value > 0 for value in values)
    return (setting, values) if fits else None


def curves_view(summary: Summary, runs: Iterable[Mapping[str, Any]], what_if: WhatIf | None = None,
                line: str = "") -> View:
    """{figure, count, predicted}: the curves of a sweep, of single runs and of one line of a what-if; count is how many
    points there are."""
    layers = [swept(points_of(summary)), single(single_points(runs)),
              predicted(predicted_points(what_if, line), speed=not (what_if and what_if.withheld))]
    best = summary.best
    marked = next((point for point in layers[0].points if best and point.setting == best.setting), None)
    concurrency = summary.counts[0] if summary.counts else 1
    return {"figure": curves_figure(layers, marked, concurrency), "count": sum(len(layer.points) for layer in layers),
            "predicted": predicted_view(what_if, line)}


def readings_at(measured: Sequence[CellResult], nodes: str) -> dict[tuple[str, str], list[Reading]]:
    """The readings of every drafting setting with that budget, a number or ``auto``, by method and curve; RequestError
    where none is."""
    readings: dict[tuple[str, str], list[Reading]] = defaultdict(list)
    for result in measured:
        setting = result.cell.setting
        if result.reading and setting.nodes == nodes and METHODS[setting.method].drafter_count:
            readings[setting.method, line_of(setting)].append(result.reading)
    if not readings:
        raise RequestError(f"Nothing was measured at the budget {nodes[:20]!r} yet; choose another one.")
    return dict(readings)
