"""Several requests at once as the lab shows them: cells, best budgets, sentences, predictions of the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import FIXED
from engine.decoding.methods import METHODS
from engine.lab.concurrency import concurrency_words, curves, predict, prediction_error, texts_forecast, texts_measured
from engine.lab.settings import CellResult, Setting
from engine.lab.statistics import Estimate
from engine.lab.store import StoredSweep
from engine.lab.summary import KnownRows, Row, Summary, summarise
from engine.lab.whatif import WhatIf
from explorer.lab.recorded import is_recorded
from explorer.lab.style import ACCENT, INK, QUIET, axis, drawn, line_of, look, paper
from explorer.lab.sweeps import recorded_view
from explorer.view import View

PLAIN = "plain"  # the column of decoding without a drafter


@dataclass(frozen=True)
class GridCell:
    """A setting's total tokens/s and those of each request. ``row`` is what was measured, None of a prediction."""

    setting: Setting
    total: float
    each: float
    row: Row | None = None

    @property
    def predicted(self) -> bool:
        """Whether it is predicted, not measured."""
        return self.row is None

    def interval(self, name: str) -> tuple[float, float] | None:
        """The 95 % interval of ``total`` or ``tokens_per_second``, or what was seen where there is none; None of what
        was not measured."""
        if self.row is None:
            return None
        estimate: Estimate = getattr(self.row, name)
        if estimate.low is None or estimate.high is None:
            return estimate.least, estimate.most
        return estimate.low, estimate.high


@dataclass(frozen=True)
class ConcurrencyGrid:
    """One curve: a column for each budget, that of plain decoding the first, a row for each number of requests.
    ``withheld`` says why no predicted cell is called the best; empty where one may be."""

    curve: Setting
    columns: tuple[Setting, ...]
    counts: tuple[int, ...]
    cells: Mapping[Setting, GridCell]
    withheld: str = ""

    def at(self, column: Setting, count: int) -> GridCell | None:
        """The cell; None where there is none yet."""
        return self.cells.get(replace(column, concurrency=count))

    def best(self, count: int) -> GridCell | None:
        """The largest total of a number of requests: of what was measured, where anything was; None where nothing was
        and the prediction is withheld."""
        row = [cell for column in self.columns if (cell := self.at(column, count))]
        measured = [cell for cell in row if not cell.predicted]
        return max(measured or ([] if self.withheld else row), key=lambda cell: cell.total, default=None)


def name_of(column: Setting) -> str:
    """The name of a column, as the page shows it."""
    return column.nodes if METHODS[column.method].drafter_count else PLAIN


def grid_of(curve: Setting, asked: Sequence[Setting], summary: Summary,
            predicted: Mapping[Setting, float]) -> ConcurrencyGrid:
    """The cells of a curve: settings ``asked`` for have a place from the start; a measurement takes precedence over a
    prediction."""
    curves_shown = {curve, curve.baseline}
    cells = {setting: GridCell(setting, total, total / setting.concurrency)
             for setting, total in predicted.items() if setting.curve in curves_shown}
    cells |= {row.setting: GridCell(row.setting, row.total.median, row.tokens_per_second.median, row)
              for row in summary.rows if row.setting.curve in curves_shown}
    places = [setting for setting in (*asked, *cells) if setting.curve in curves_shown]
    columns = dict.fromkeys(sorted((setting.alone for setting in places), key=_order))
    counts = {setting.concurrency for setting in places if setting.curve == curve}
    return ConcurrencyGrid(curve, tuple(columns), tuple(sorted(counts)), cells)


def _order(column: Setting) -> tuple[bool, bool, int]:
    return METHODS[column.method].drafter_count > 0, column.pace != FIXED, column.budget


TOOLTIP = 48  # characters of a line
HALF = 0.5  # of a cell
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star", "hexagon", "pentagon")


def heat_figure(grid: ConcurrencyGrid, concurrency: int) -> dict[str, Any]:
    """A cell for each budget and number of requests: its colour and its label are the total tokens/s, a frame marks
    the best of each number, hatching what is predicted. ``concurrency`` is the number that is looked at."""
    names = [name_of(column) for column in grid.columns]
    counts = [f"{'▸ ' if count == concurrency else ''}{count}" for count in grid.counts]
    figure = paper(
        0.4, barmode="overlay", bargap=0, showlegend=False,
        xaxis=axis("node budget", tickvals=list(range(len(names))), ticktext=names, showgrid=False,
                   range=[-HALF, len(names) - HALF]),
        yaxis=axis("requests at once", tickvals=list(range(len(counts))), ticktext=counts, showgrid=False,
                   range=[-HALF, len(counts) - HALF]))
    figure.add_trace(_colours(grid))
    cells = [(x, y, cell) for y, count in enumerate(grid.counts) for x, column in enumerate(grid.columns)
             if (cell := grid.at(column, count))]
    figure.add_trace(_hatching([(x, y) for x, y, cell in cells if cell.predicted]))
    best = {cell.setting for count in grid.counts if (cell := grid.best(count))}
    figure.add_trace(_labels(cells, best))
    for x, y, cell in cells:
        if cell.setting in best:
            inset = 0.46
            figure.add_shape(type="rect", x0=x - inset, x1=x + inset, y0=y - inset, y1=y + inset,
                             line={"color": ACCENT, "width": 2.5, "dash": "dot" if cell.predicted else "solid"})
    return drawn(figure, heat_summary(grid))


def _colours(grid: ConcurrencyGrid) -> go.Heatmap:
    totals = [[cell.total if (cell := grid.at(column, count)) else None for column in grid.columns]
              for count in grid.counts]
    return go.Heatmap(
        z=totals, x=list(range(len(grid.columns))), y=list(range(len(grid.counts))), xgap=3, ygap=3, hoverinfo="skip",
        colorscale=[[0, "var(--heat-0)"], [0.5, "var(--heat-1)"], [1, "var(--heat-2)"]], hoverongaps=False,
        zmin=0, colorbar={"title": {"text": "tokens/s, all", "side": "right", "font": {"size": 11}}, "thickness": 10,
                          "outlinewidth": 0, "tickfont": {"size": 10}})


def _hatching(places: Sequence[tuple[int, int]]) -> go.Bar:
    """Hatching over the cells that were not measured."""
    clear = "rgba(0,0,0,0)"
    return go.Bar(
        x=[x for x, _ in places], y=[1 - 0.06] * len(places), base=[y - HALF + 0.03 for _, y in places], width=0.97,
        meta="predicted", hoverinfo="skip",
        marker={"color": clear, "line": {"width": 0}, "pattern": {
            "shape": "/", "fgcolor": QUIET, "fgopacity": 0.5, "bgcolor": clear, "size": 9, "solidity": 0.12,
            "fillmode": "replace"}})


def _labels(cells: Sequence[tuple[int, int, GridCell]], best: set[Setting]) -> go.Scatter:
    """The numbers in the cells; those of the best budgets are bold."""
    texts, shorts = ([_label(cell, figure, cell.setting in best) for _, _, cell in cells]
                     for figure in (_whole, _short))
    return go.Scatter(
        x=[x for x, _, _ in cells], y=[y for _, y, _ in cells], mode="text", text=texts, meta="labels",
        textfont={"color": INK, "size": 12}, customdata=[
            [cell_words(cell), short] for (_, _, cell), short in zip(cells, shorts, strict=True)],
        hovertemplate="%{customdata[0]}<extra></extra>")


def _label(cell: GridCell, figure: Callable[[float], str], best: bool) -> str:
    text = f"{'≈' if cell.predicted else ''}{figure(cell.total)}"
    return f"<b>{text}</b>" if best else text


def _whole(total: float) -> str:
    return f"{total:,.0f}"


def _short(total: float) -> str:
    """A number in few characters, for small screens."""
    return f"{total:.0f}" if total < 1000 else f"{total / 1000:.1f}k"


def cell_words(cell: GridCell) -> str:
    """A cell in words, for its tooltip."""
    count = cell.setting.concurrency
    people = f"{count} at once" if count > 1 else "one alone"
    head = (f"<b>{_drafted(cell)}, {people}</b><br>{cell.total:,.0f} tokens/s in all, "
            f"{cell.each:,.0f} each")
    if cell.row is None:
        return f"{head}<br>predicted, not measured"
    low, high = cell.interval("total") or (0.0, 0.0)
    kind = "seen" if cell.row.total.low is None else "95 %"
    faster = f"{cell.row.speedup.median:.2f} × plain decoding" if cell.row.speedup else cell.row.withheld
    lines = [head, f"{cell.row.total.prompts} prompts, {kind}: {low:,.0f} to {high:,.0f}", *wrap(faster, TOOLTIP)]
    return "<br>".join(lines)


def _drafted(cell: GridCell) -> str:
    name = name_of(cell.setting)
    return "plain decoding" if name == PLAIN else f"{cell.setting.method}, {name} nodes"


def heat_summary(grid: ConcurrencyGrid) -> str:
    """The best budgets in words, for screen readers."""
    ridge = [f"{_drafted(cell)} for {count} at once ({cell.total:,.0f} tokens per second"
             f"{', predicted' if cell.predicted else ''})"
             for count in grid.counts if (cell := grid.best(count))]
    if not ridge:
        return grid.withheld or f"Nothing of {grid.curve.label} has been measured yet."
    return (f"Total tokens per second of {grid.curve.label} over node budget and requests at once. The best: "
            f"{'; '.join(ridge)}. The table has every cell.")


def each_figure(grid: ConcurrencyGrid) -> dict[str, Any]:
    """Tokens/s of each request, by how many there are: a line for each budget, with 95 % intervals."""
    ticks = {"tickvals": [log2(count) for count in grid.counts], "ticktext": [str(count) for count in grid.counts]}
    figure = paper(
        0.7, xaxis=axis("requests at once, log₂", **ticks), yaxis=axis("tokens per second, each", rangemode="tozero"))
    for place, column in enumerate(grid.columns):
        cells = [cell for count in grid.counts if (cell := grid.at(column, count))]
        if cells:
            figure.add_trace(_line(column, place, cells))
    return drawn(figure, f"Tokens per second of each request by requests at once for {grid.curve.label}, a line for "
                         f"each node budget: {', '.join(map(name_of, grid.columns))}.")


def _line(column: Setting, place: int, cells: Sequence[GridCell]) -> go.Scatter:
    """A budget's line; open markers are predicted."""
    plain = name_of(column) == PLAIN
    colour, symbol = look(column.method).color, SYMBOLS[place % len(SYMBOLS)]
    bounds = [cell.interval("tokens_per_second") or (cell.each, cell.each) for cell in cells]
    return go.Scatter(
        x=[log2(cell.setting.concurrency) for cell in cells], y=[cell.each for cell in cells], mode="lines+markers",
        name=name_of(column),
        line={"color": colour, "width": 2.4 if plain else 1.8, "dash": "dot" if plain else DASHES[place % len(DASHES)]},
        marker={"size": 8, "color": colour,
                "symbol": [f"{symbol}-open" if cell.predicted else symbol for cell in cells]},
        error_y={"type": "data", "symmetric": False, "thickness": 1, "width": 3, "color": colour,
                 "array": [high - cell.each for (_, high), cell in zip(bounds, cells, strict=True)],
                 "arrayminus": [cell.each - low for (low, _), cell in zip(bounds, cells, strict=True)]},
        customdata=[[cell_words(cell)] for cell in cells], hovertemplate="%{customdata[0]}<extra></extra>")


@dataclass(frozen=True)
class ConcurrencyPrediction:
    """What one run predicts: its rounds under every method and budget, and the cost of rounds by requests at once."""

    forecast: WhatIf
    costs: Mapping[int, CostCurve]

    def of(self, measured: Sequence[CellResult]) -> dict[Setting, float]:
        """Total tokens/s of every setting: from its own measured rounds, else from those of the run."""
        texts = {**texts_forecast(self.forecast.forecasts), **texts_measured(measured)}
        return predict(texts, self.costs, self.costs.__getitem__)

    @property
    def withheld(self) -> str:
        """Why no best budget is predicted from its cost curves, in a sentence; empty where one is."""
        return next((curve.disorder for curve in self.costs.values() if curve.disorder), "")

    def belongs_to(self, stored: StoredSweep) -> bool:
        """Whether it is of the measurement's machine and rig, so that both may stand in one figure."""
        seen, here = stored.conditions, self.forecast
        return not is_recorded(stored.number) and (seen.rig, seen.hardware, seen.dtype) == (
            here.rig, here.hardware, here.dtype)


@dataclass(frozen=True)
class GridFocus:
    """What is shown: which curve, and how many requests at once."""

    line: str = ""
    concurrency: int = 1


def concurrency_view(stored: StoredSweep | None, measured: Sequence[CellResult],
                     prediction: ConcurrencyPrediction | None, looked: GridFocus,
                     known: KnownRows | None = None) -> View:
    """{lines, line, heat, each, words, accuracy, table, count, recorded}: a prediction of another machine or rig than
    the measurement's stands alone. ``count`` is how many cells there are; ``known`` as in ``summarise``."""
    alone = prediction is not None and not (stored and prediction.belongs_to(stored))
    seen = [] if alone else list(measured)
    asked = stored.plan.settings if stored and not alone else ()
    summary = summarise(asked, seen, known if seen else None)
    predicted = prediction.of(seen) if prediction else {}
    lines = {line_of(curve): curve for curve in _curves((*asked, *predicted))}
    chosen = lines.get(looked.line) or next(iter(_fastest(summary, lines)), None)
    if chosen is None:
        return {"lines": [], "line": "", "words": [], "accuracy": "", "count": 0}
    grid = replace(grid_of(chosen, asked, summary, predicted), withheld=prediction.withheld if prediction else "")
    error = prediction_error({setting: total for setting, total in predicted.items()
                              if setting.curve in (chosen, chosen.baseline)}, summary)
    return {
        "lines": list(lines), "line": line_of(chosen), "heat": heat_figure(grid, looked.concurrency),
        "each": each_figure(grid), "words": words(grid, summary), "table": table(grid), "count": len(grid.cells),
        "accuracy": error.sentence if error else "",
        "recorded": recorded_view(stored) if stored and not alone else None}


def _curves(settings: Sequence[Setting]) -> list[Setting]:
    return list(dict.fromkeys(setting.curve for setting in settings if METHODS[setting.method].drafter_count))


def _fastest(summary: Summary, lines: Mapping[str, Setting]) -> list[Setting]:
    """The curves, the one with the largest total first."""
    known = curves(summary)
    totals = {curve: max(row.total.median for row in summary.rows if row.setting.curve == curve) for curve in known}
    return sorted(lines.values(), key=lambda curve: -totals.get(curve, 0.0))


def words(grid: ConcurrencyGrid, summary: Summary) -> list[str]:
    """The best budgets and where plain decoding wins; from the prediction, where nothing was measured."""
    sentences = concurrency_words(summary, grid.curve)
    if not any(cell.predicted for cell in grid.cells.values()):
        return sentences
    if sentences or grid.withheld:
        return [*sentences, *([grid.withheld] if grid.withheld else [])]
    best = [f"{name_of(cell.setting)} for {count}" for count in grid.counts if (cell := grid.best(count))]
    return [f"Predicted, not measured: the best budget of {grid.curve.label}, by requests at once: {', '.join(best)}."]


def table(grid: ConcurrencyGrid) -> View:
    """The cells for a table: {columns, rows: [{concurrency, cells}]}, a cell {text, more, best, predicted} or None."""
    rows = []
    for count in grid.counts:
        best = grid.best(count)
        cells = [grid.at(column, count) for column in grid.columns]
        rows.append({"concurrency": count, "cells": [cell and _cell(cell, cell is best) for cell in cells]})
    return {"columns": [name_of(column) for column in grid.columns], "rows": rows}


def _cell(cell: GridCell, best: bool) -> View:
    low, high = cell.interval("total") or (cell.total, cell.total)
    more = "predicted" if cell.predicted else f"{low:,.0f} – {high:,.0f}"
    same = cell.row and cell.row.same_text != cell.row.compared
    return {"text": f"{'≈ ' if cell.predicted else ''}{cell.total:,.0f}", "more": f"{more}; {cell.each:,.0f} each",
            "best": best, "predicted": cell.predicted,
            "differs": f"{cell.row.same_text} of {cell.row.compared} texts the same" if same and cell.row else ""}
