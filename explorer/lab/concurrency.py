"""Several requests at once as the lab shows them: cells, best budgets, sentences, predictions of the rest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from math import log2
from textwrap import wrap

from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import FIXED
from engine.lab.concurrency import concurrency_words, predict, prediction_error, texts_forecast, texts_measured
from engine.lab.replay import WhatIf
from engine.lab.settings import CellResult, Setting
from engine.lab.speed import rate_text
from engine.lab.statistics import Estimate, estimate
from engine.lab.store import StoredSweep
from engine.lab.summary import Row, Summary
from explorer.lab.style import (
    ACCENT,
    INK,
    NO_COLOR,
    QUIET,
    axis,
    curve,
    drafts,
    error_bars,
    figure,
    heat_map,
    line_of,
    look,
    range_text,
)
from explorer.view import View

PLAIN = "plain"  # the column of decoding without a drafter
TOOLTIP = 48  # characters of a line
HALF, INSET = 0.5, 0.46  # of a cell: its edge, and the frame in it
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star", "hexagon", "pentagon")


@dataclass(frozen=True)
class GridCell:
    """A setting's total tokens/s. ``row`` is what was measured, None of a prediction."""

    setting: Setting
    total: float
    row: Row | None = None

    @property
    def per_request(self) -> Estimate:
        """The tokens/s of one request."""
        return self.row.tokens_per_second if self.row else estimate([self.total / self.setting.concurrency])

    @property
    def name(self) -> str:
        """Its method and budget in words."""
        name = name_of(self.setting)
        return "plain decoding" if name == PLAIN else f"{self.setting.method}, {name} nodes"

    def words(self) -> str:
        """Its tooltip."""
        count = self.setting.concurrency
        head = (f"<b>{self.name}, {f'{count} at once' if count > 1 else 'one alone'}</b><br>"
                f"{rate_text(self.total)} tokens/s in all, {rate_text(self.per_request.median)} each")
        if self.row is None:
            return f"{head}<br>predicted, not measured"
        total, record = self.row.total, self.row.record
        kind = "seen" if total.low is None else "95 %"
        faster = f"{record.times} plain decoding" if record.times else record.withheld
        return "<br>".join([head, f"{total.prompts} prompts, {kind}: {range_text(total, 0)}", *wrap(faster, TOOLTIP)])


@dataclass(frozen=True)
class ConcurrencyGrid:
    """One curve: a column for each budget, that of plain decoding the first, a row for each number of requests.
    ``withheld`` says why no predicted cell is called the best; empty if one may be."""

    curve: Setting
    columns: tuple[Setting, ...]
    counts: tuple[int, ...]
    cells: Mapping[Setting, GridCell]
    withheld: str = ""

    def cell(self, column: Setting, count: int) -> GridCell | None:
        """The cell of a column and a number of requests; None if there is none yet."""
        return self.cells.get(replace(column, concurrency=count))

    def row(self, count: int) -> list[GridCell | None]:
        """The cells of a number of requests."""
        return [self.cell(column, count) for column in self.columns]

    def best(self, count: int) -> GridCell | None:
        """The largest total of a number of requests: of what was measured, where anything was; None if nothing was
        and the prediction is withheld."""
        row = [cell for cell in self.row(count) if cell]
        measured = [cell for cell in row if cell.row]
        return max(measured or ([] if self.withheld else row), key=lambda cell: cell.total, default=None)

    def ridge(self) -> list[GridCell]:
        """The best cell of each number of requests."""
        return [cell for count in self.counts if (cell := self.best(count))]


def name_of(column: Setting) -> str:
    """The name of a column, as the page shows it."""
    return column.nodes if drafts(column) else PLAIN


def grid_of(line: Setting, asked: Sequence[Setting], summary: Summary, predicted: Mapping[Setting, float],
            withheld: str = "") -> ConcurrencyGrid:
    """The cells of a curve: settings ``asked`` for have a place from the start; a measurement takes precedence over a
    prediction."""
    shown = {line, line.baseline}
    cells = {setting: GridCell(setting, total) for setting, total in predicted.items() if setting.curve in shown}
    cells |= {row.setting: GridCell(row.setting, row.total.median, row)
              for row in summary.rows if row.setting.curve in shown}
    settings = [setting for setting in (*asked, *cells) if setting.curve in shown]
    columns = sorted({setting.alone for setting in settings},
                     key=lambda column: (drafts(column), column.pace != FIXED, column.budget))
    counts = sorted({setting.concurrency for setting in settings if setting.curve == line})
    return ConcurrencyGrid(line, tuple(columns), tuple(counts), cells, withheld)


def heat_figure(grid: ConcurrencyGrid, concurrency: int) -> View:
    """A cell for each budget and number of requests: its colour and its label are the total tokens/s, a frame marks
    the best of each number, hatching what is predicted. ``concurrency`` is the number that is looked at."""
    columns, rows = range(len(grid.columns)), [grid.row(count) for count in grid.counts]
    cells = [(x, y, cell) for y, row in enumerate(rows) for x, cell in enumerate(row) if cell]
    best = {cell.setting for cell in grid.ridge()}
    heat = heat_map([[cell.total if cell else None for cell in row] for row in rows], "tokens/s, all", x=list(columns),
                    y=list(range(len(rows))), xgap=3, ygap=3, hoverinfo="skip")
    frames = [{"type": "rect", "x0": x - INSET, "x1": x + INSET, "y0": y - INSET, "y1": y + INSET,
               "line": {"color": ACCENT, "width": 2.5, "dash": "dot" if cell.row is None else "solid"}}
              for x, y, cell in cells if cell.setting in best]
    marks = [f"{'▸ ' if count == concurrency else ''}{count}" for count in grid.counts]
    return figure(
        [heat, _hatching([(x, y) for x, y, cell in cells if cell.row is None]), _labels(cells, best)],
        heat_summary(grid), barmode="overlay", bargap=0, showlegend=False, shapes=frames,
        xaxis=axis("node budget", tickvals=list(columns), ticktext=list(map(name_of, grid.columns)), showgrid=False,
                   range=[-HALF, len(columns) - HALF]),
        yaxis=axis("requests at once", tickvals=list(range(len(marks))), ticktext=marks, showgrid=False,
                   range=[-HALF, len(marks) - HALF]))


def _hatching(places: Sequence[tuple[int, int]]) -> View:
    """Hatching over the cells that were not measured."""
    return {"type": "bar", "x": [x for x, _ in places], "y": [1 - 0.06] * len(places), "width": 0.97,
            "base": [y - HALF + 0.03 for _, y in places], "meta": "predicted", "hoverinfo": "skip",
            "marker": {"color": NO_COLOR, "line": {"width": 0}, "pattern": {
                "shape": "/", "fgcolor": QUIET, "fgopacity": 0.5, "bgcolor": NO_COLOR, "size": 9, "solidity": 0.12,
                "fillmode": "replace"}}}


def _labels(cells: Sequence[tuple[int, int, GridCell]], best: set[Setting]) -> View:
    """The numbers in the cells, bold in the best of each row; the second of ``customdata`` is for small screens."""
    def label(cell: GridCell, number: Callable[[float], str]) -> str:
        text = f"{'≈' if cell.row is None else ''}{number(cell.total)}"
        return f"<b>{text}</b>" if cell.setting in best else text
    return {"type": "scatter", "x": [x for x, _, _ in cells], "y": [y for _, y, _ in cells], "mode": "text",
            "text": [label(cell, "{:,.0f}".format) for _, _, cell in cells], "meta": "labels",
            "textfont": {"color": INK, "size": 12},
            "customdata": [[cell.words(), label(cell, _short)] for _, _, cell in cells],
            "hovertemplate": "%{customdata[0]}<extra></extra>"}


def _short(total: float) -> str:
    return f"{total:.0f}" if total < 1000 else f"{total / 1000:.1f}k"


def heat_summary(grid: ConcurrencyGrid) -> str:
    """The best budgets in words, for screen readers."""
    ridge = [f"{cell.name} for {cell.setting.concurrency} at once ({cell.total:,.0f} tokens per second"
             f"{', predicted' if cell.row is None else ''})" for cell in grid.ridge()]
    if not ridge:
        return grid.withheld or f"Nothing of {grid.curve.label} has been measured yet."
    return (f"Total tokens per second of {grid.curve.label} over node budget and requests at once. The best: "
            f"{'; '.join(ridge)}. The table has every cell.")


def per_request_figure(grid: ConcurrencyGrid) -> View:
    """Tokens/s of each request, by how many there are: a line for each budget, with 95 % intervals; open markers are
    predicted."""
    traces = []
    for column, dash, symbol in zip(grid.columns, cycle(DASHES), cycle(SYMBOLS), strict=False):
        cells = [cell for count in grid.counts if (cell := grid.cell(column, count))]
        if not cells:
            continue
        plain, color = not drafts(column), look(column.method).color
        speeds = [cell.per_request for cell in cells]
        traces.append(curve(
            name_of(column), [log2(cell.setting.concurrency) for cell in cells], [speed.median for speed in speeds],
            "%{customdata[0]}", {"color": color, "width": 2.4 if plain else 1.8, "dash": "dot" if plain else dash},
            mode="lines+markers", customdata=[[cell.words()] for cell in cells], error_y=error_bars(speeds, color),
            marker={"size": 8, "color": color, "symbol": [symbol if cell.row else f"{symbol}-open" for cell in cells]}))
    return figure(
        traces, f"Tokens per second of each request by requests at once for {grid.curve.label}, a line for each node "
                f"budget: {', '.join(map(name_of, grid.columns))}.",
        xaxis=axis("requests at once, log₂", tickvals=list(map(log2, grid.counts)),
                   ticktext=list(map(str, grid.counts))),
        yaxis=axis("tokens per second, each", rangemode="tozero"))


@dataclass(frozen=True)
class RunPrediction:
    """What one run predicts: its rounds under every method and budget, and the cost of rounds by requests at once, as
    far as that was measured."""

    forecast: WhatIf
    costs: Mapping[int, CostCurve] = field(default_factory=dict)

    def of(self, measured: Sequence[CellResult]) -> dict[Setting, float]:
        """Total tokens/s of every setting: from its own measured rounds, else from those of the run."""
        texts = {**texts_forecast(self.forecast.forecasts), **texts_measured(measured)}
        return predict(texts, self.costs, self.costs.__getitem__)

    @property
    def withheld(self) -> str:
        """Why no best budget is predicted from its cost curves, in a sentence; empty if one is."""
        return next((costs.disorder for costs in self.costs.values() if costs.disorder), "")

    def belongs_to(self, stored: StoredSweep) -> bool:
        """Whether it is of the measurement's machine and rig, so that both may stand in one figure."""
        seen, here = stored.conditions, self.forecast
        return (seen.rig, seen.hardware, seen.dtype) == (here.rig, here.hardware, here.dtype)


def concurrency_view(summary: Summary, asked: Sequence[Setting] = (), predicted: Mapping[Setting, float] | None = None,
                     withheld: str = "", *, line: str = "", concurrency: int = 1) -> View:
    """{lines, line, heat, per_request, words, accuracy, table, count}: the curve of that name, else the one with the
    largest total. ``count`` is how many cells there are."""
    predicted = predicted or {}
    lines = {line_of(setting): setting.curve for setting in (*asked, *predicted) if drafts(setting)}
    totals = {name: max((row.total.median for row in summary.rows if row.setting.curve == curve), default=0.0)
              for name, curve in lines.items()}
    if not lines:
        return {"lines": [], "line": "", "words": [], "accuracy": "", "count": 0}
    line = line if line in lines else max(totals, key=totals.__getitem__)
    grid = grid_of(lines[line], asked, summary, predicted, withheld)
    error = prediction_error({setting: total for setting, total in predicted.items() if setting in grid.cells}, summary)
    return {"lines": list(lines), "line": line, "count": len(grid.cells), "heat": heat_figure(grid, concurrency),
            "per_request": per_request_figure(grid), "table": table(grid), "words": words(grid, summary),
            "accuracy": error}


def words(grid: ConcurrencyGrid, summary: Summary) -> list[str]:
    """The best budgets and where plain decoding wins; from the prediction, if nothing was measured."""
    sentences = concurrency_words(summary, grid.curve)
    if not any(cell.row is None for cell in grid.cells.values()):
        return sentences
    if sentences or grid.withheld:
        return [*sentences, *filter(None, [grid.withheld])]
    best = [f"{name_of(cell.setting)} for {cell.setting.concurrency}" for cell in grid.ridge()]
    return [f"Predicted, not measured: the best budget of {grid.curve.label}, by requests at once: {', '.join(best)}."]


def table(grid: ConcurrencyGrid) -> View:
    """The cells for a table: {columns, rows: [{concurrency, cells}]}, a cell {text, more, best, predicted, differs} or
    None."""
    return {"columns": list(map(name_of, grid.columns)), "rows": [
        {"concurrency": count, "cells": [cell and _cell(cell, cell is grid.best(count)) for cell in grid.row(count)]}
        for count in grid.counts]}


def _cell(cell: GridCell, best: bool) -> View:
    row = cell.row
    seen = range_text(row.total, 0) if row else "predicted"
    return {"text": f"{'' if row else '≈ '}{cell.total:,.0f}", "more": f"{seen}; {cell.per_request.median:,.0f} each",
            "best": best, "predicted": row is None,
            "differs": f"{row.same_text} of {row.compared} texts the same" if row and row.same_text != row.compared
            else ""}
