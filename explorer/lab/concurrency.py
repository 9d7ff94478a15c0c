"""Several requests at once as the lab shows them: total tokens/s by budget and number of requests, and sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import TypedDict

from engine.decoding.budget_policy import FIXED
from engine.lab.concurrency import concurrency_words
from engine.lab.settings import Setting
from engine.lab.speed import rate_text
from engine.lab.summary import Row, Summary
from explorer.lab.style import ACCENT, INK, Figure, axis, figure, heat_map, label_of, range_text

PLAIN = "plain"  # the column of decoding without a drafter
TOOLTIP_WIDTH = 48  # characters
HALF, INSET = 0.5, 0.46  # of a cell: its edge, and the frame in it


class Cell(TypedDict):
    """A cell of the table: total tokens/s, the interval with the speed of each request, and what is remarkable."""

    text: str
    more: str
    best: bool
    withheld: str
    differs: str


class CellRow(TypedDict):
    """The cells of one number of requests, None if nothing was measured."""

    concurrency: int
    cells: list[Cell | None]


class ConcurrencyView(TypedDict):
    """What the page shows of several requests at once; ``line`` is the curve that is drawn, of ``lines``."""

    lines: list[str]
    line: str
    words: list[str]
    columns: list[str]
    rows: list[CellRow]
    heat: Figure | None


@dataclass(frozen=True)
class ConcurrencyGrid:
    """One curve: a column for each budget, plain decoding's first, and a row for each number of requests."""

    curve: Setting
    columns: tuple[Setting, ...]
    counts: tuple[int, ...]
    cells: Mapping[Setting, Row]

    def row(self, count: int) -> list[Row | None]:
        """The measured cells of a number of requests, None if nothing was."""
        return [self.cells.get(replace(column, concurrency=count)) for column in self.columns]

    def best(self, count: int) -> Row | None:
        """The cell with the largest total; None if there is none, or if its speed-up is withheld."""
        best = max((cell for cell in self.row(count) if cell), key=lambda cell: cell.total.median, default=None)
        return best if best and not best.withheld else None


def grid_of(line: Setting, asked: Sequence[Setting], summary: Summary) -> ConcurrencyGrid:
    """The cells of a curve. The settings ``asked`` for have their place from the start."""
    shown = {line, line.baseline}
    cells = {row.setting: row for row in summary.rows if row.setting.curve in shown}
    settings = [setting for setting in (*asked, *cells) if setting.curve in shown]
    columns = sorted({setting.alone for setting in settings},
                     key=lambda column: (column.drafts, column.pace != FIXED, column.budget))
    counts = sorted({setting.concurrency for setting in settings if setting.curve == line})
    return ConcurrencyGrid(line, tuple(columns), tuple(counts), cells)


def concurrency_view(summary: Summary, asked: Sequence[Setting] = (), *, line: str = "",
                     concurrency: int = 1) -> ConcurrencyView:
    """The view of the curve with that name, else of the one with the largest total. ``concurrency`` is the number of
    requests that is looked at."""
    lines = {setting.line: setting.curve for setting in asked if setting.drafts}
    totals = {name: max((row.total.median for row in summary.rows if row.setting.curve == curve), default=0.0)
              for name, curve in lines.items()}
    line = line if line in lines else max(totals, key=totals.__getitem__, default="")
    if not line:
        return {"lines": [], "line": "", "words": [], "columns": [], "rows": [], "heat": None}
    grid = grid_of(lines[line], asked, summary)
    return {"lines": list(lines), "line": line, "words": concurrency_words(summary, grid.curve),
            "columns": list(map(name_of, grid.columns)),
            "rows": [{"concurrency": count, "cells": [_table_cell(cell, cell is grid.best(count)) if cell else None
                                                      for cell in grid.row(count)]} for count in grid.counts],
            "heat": heat_figure(grid, concurrency) if grid.cells else None}


def name_of(column: Setting) -> str:
    """The name of a column, as the page shows it."""
    return column.nodes if column.drafts else PLAIN


def _table_cell(row: Row, best: bool) -> Cell:
    same = row.same_text == row.compared
    return {"text": f"{row.total.median:,.0f}", "best": best, "withheld": row.withheld,
            "more": f"{range_text(row.total, 0)}; {row.tokens_per_second.median:,.0f} each",
            "differs": "" if same else f"{row.same_text} of {row.compared} texts the same"}


def heat_figure(grid: ConcurrencyGrid, concurrency: int) -> Figure:
    """A cell for each budget and number of requests: its colour and its label are the total tokens/s, a frame marks
    the best of each number, and ▸ the number that is looked at."""
    columns, rows = range(len(grid.columns)), [grid.row(count) for count in grid.counts]
    cells = [(x, y, cell) for y, row in enumerate(rows) for x, cell in enumerate(row) if cell]
    best = {cell.setting for count in grid.counts if (cell := grid.best(count))}
    heat = heat_map([[cell.total.median if cell else None for cell in row] for row in rows], x=list(columns),
                    y=list(range(len(rows))), xgap=3, ygap=3, hoverinfo="skip")
    labels = {"type": "scatter", "mode": "text", "x": [x for x, _, _ in cells], "y": [y for _, y, _ in cells],
              "text": [_label(cell, cell.setting in best) for _, _, cell in cells],
              "textfont": {"color": INK, "size": 12}, "customdata": [[_tooltip(cell)] for _, _, cell in cells],
              "hovertemplate": "%{customdata[0]}<extra></extra>"}
    frames = [{"type": "rect", "x0": x - INSET, "x1": x + INSET, "y0": y - INSET, "y1": y + INSET,
               "line": {"color": ACCENT, "width": 2.5}} for x, y, cell in cells if cell.setting in best]
    marks = [f"{'▸ ' if count == concurrency else ''}{count}" for count in grid.counts]
    return figure(
        [heat, labels], _summary(grid), showlegend=False, shapes=frames,
        xaxis=axis("node budget", tickvals=list(columns), ticktext=list(map(name_of, grid.columns)), showgrid=False,
                   range=[-HALF, len(columns) - HALF]),
        yaxis=axis("requests at once", tickvals=list(range(len(marks))), ticktext=marks, showgrid=False,
                   range=[-HALF, len(marks) - HALF]))


def _label(row: Row, best: bool) -> str:
    text = f"{row.total.median:,.0f}"
    return f"<b>{text}</b>" if best else text


def _tooltip(row: Row) -> str:
    total, record = row.total, row.record
    kind = "seen" if total.low is None else "95 %"
    faster = f"{record.times} plain decoding" if record.times else record.withheld
    return "<br>".join([
        f"<b>{label_of(row.setting)}</b>",
        f"{record.speed} tokens/s in all, {rate_text(row.tokens_per_second.median)} each",
        f"{total.prompts} prompts, {kind}: {range_text(total, 0)}", *wrap(faster, TOOLTIP_WIDTH)])


def _summary(grid: ConcurrencyGrid) -> str:
    """The best budgets in words, for screen readers."""
    best = [f"{label_of(cell.setting)} ({cell.total.median:,.0f} tokens per second)"
            for count in grid.counts if (cell := grid.best(count))]
    return (f"Total tokens per second of {grid.curve.label} over node budget and requests at once. The best: "
            f"{'; '.join(best) or 'not said'}. The table has every cell.")
