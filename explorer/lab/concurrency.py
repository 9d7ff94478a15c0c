"""Several requests at once as the lab shows them: total tokens/s by budget and number of requests, and sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TypedDict

from engine.decoding.budget_policy import FIXED
from engine.lab.settings import Setting
from engine.lab.speed import rate_text
from engine.lab.summary import Row, Summary, concurrency_words
from explorer.lab.style import ACCENT, INK, QUIET, Figure, axis, figure, heat_map, label_of, range_text

PLAIN = "plain"  # the column of decoding without a drafter
TOOLTIP_WIDTH = 48  # characters
HALF_CELL, HALF_FRAME = 0.5, 0.46  # half the width of a cell and of the frame in it
Grid = Mapping[int, Sequence[Row | None]]  # by requests at once, a cell for each column, None if nothing was measured


class Cell(TypedDict):
    """A cell of the table: total tokens/s, the interval with the speed of each request, and what is remarkable."""

    text: str
    more: str
    best: bool
    withheld: str
    differs: str


class CellRow(TypedDict):
    """The cells of one number of requests, None if nothing was measured. ``withheld`` is why no cell is compared."""

    concurrency: int
    cells: list[Cell | None]
    withheld: str


class ConcurrencyView(TypedDict):
    """What the page shows of several requests at once; ``line`` is the curve that is drawn, of ``lines``."""

    lines: list[str]
    line: str
    words: list[str]
    columns: list[str]
    rows: list[CellRow]
    heat: Figure | None


def concurrency_view(summary: Summary, planned: Sequence[Setting] = (), *, line: str = "",
                     concurrency: int = 1) -> ConcurrencyView:
    """Return the view of the curve ``line``, else of the one with the largest total. ``planned`` settings get a
    cell before they are measured; the row of ``concurrency`` is marked."""
    curves = {setting.curve_label: setting.curve for setting in planned if setting.drafts}
    totals = {name: max((row.total.median for row in summary.rows if row.setting.curve == curve), default=0.0)
              for name, curve in curves.items()}
    line = line if line in curves else max(totals, key=totals.__getitem__, default="")
    if not line:
        return {"lines": [], "line": "", "words": [], "columns": [], "rows": [], "heat": None}
    drawn = {curves[line], curves[line].baseline}
    cells = {row.setting: row for row in summary.rows if row.setting.curve in drawn}
    settings = [setting for setting in (*planned, *cells) if setting.curve in drawn]
    columns = sorted({setting.with_one_request for setting in settings},
                     key=lambda column: (column.drafts, column.pace != FIXED, column.budget))
    grid = {count: [cells.get(replace(column, concurrency=count)) for column in columns]
            for count in sorted({setting.concurrency for setting in settings if setting.curve_label == line})}
    names = [column.budget_label if column.drafts else PLAIN for column in columns]
    words = concurrency_words(summary, curves[line])
    if cells:
        words.append(f"Each figure is a median over {max(row.total.prompts for row in cells.values())} prompts.")
    return {"lines": list(curves), "line": line, "words": words, "columns": names,
            "rows": [{"concurrency": count, "withheld": withheld_reason(row),
                      "cells": [_table_cell(cell, cell is best_of(row)) if cell else None for cell in row]}
                     for count, row in grid.items()],
            "heat": heat_figure(line, names, grid, concurrency) if cells else None}


def best_of(row: Sequence[Row | None]) -> Row | None:
    """Return the cell with the largest total; None if its speed-up or the whole row's is withheld."""
    best = max((cell for cell in row if cell), key=lambda cell: cell.total.median, default=None)
    return best if best and not best.withheld and not withheld_reason(row) else None


def withheld_reason(row: Sequence[Row | None]) -> str:
    """Return why the row reports no speed-up; "" if it does."""
    reasons = [cell.withheld for cell in row if cell and cell.setting.drafts]
    return reasons[0] if reasons and all(reasons) else ""


def _table_cell(row: Row, best: bool) -> Cell:
    all_equal = row.same_text == row.compared
    return {"text": f"{row.total.median:.0f}", "best": best, "withheld": row.withheld,
            "more": f"{range_text(row.total, 0)}; {row.tokens_per_second.median:.0f} each",
            "differs": "" if all_equal else f"{row.same_text} of {row.compared} texts the same"}


def heat_figure(line: str, columns: Sequence[str], grid: Grid, concurrency: int) -> Figure:
    """Plot the total tokens/s by budget and number of requests. A frame marks the best of each number, ▸ the marked
    one; withheld cells have no colour."""
    cells = [(x, y, cell) for y, row in enumerate(grid.values()) for x, cell in enumerate(row) if cell]
    bests = [best for row in grid.values() if (best := best_of(row))]
    totals = [[cell.total.median if cell and not (cell.withheld or withheld_reason(row)) else None for cell in row]
              for row in grid.values()]
    heat = heat_map(totals, x=list(range(len(columns))), y=list(range(len(grid))), xgap=3, ygap=3, hoverinfo="skip")
    texts = [(cell, f"{cell.total.median:.0f}") for _, _, cell in cells]
    labels = {"type": "scatter", "mode": "text", "x": [x for x, _, _ in cells], "y": [y for _, y, _ in cells],
              "text": [f"<b>{text}</b>" if cell in bests else text for cell, text in texts],
              "textfont": {"color": [INK if totals[y][x] else QUIET for x, y, _ in cells], "size": 12},
              "customdata": [[_tooltip(cell)] for _, _, cell in cells],
              "hovertemplate": "%{customdata[0]}<extra></extra>"}
    frames = [{"type": "rect", "x0": x - HALF_FRAME, "x1": x + HALF_FRAME, "y0": y - HALF_FRAME, "y1": y + HALF_FRAME,
               "line": {"color": ACCENT, "width": 2.5}} for x, y, cell in cells if cell in bests]
    best_labels = [f"{label_of(best.setting)} ({best.total.median:.0f} tokens per second)" for best in bests]
    return figure(
        [heat, labels], f"Total tokens per second of {line} over node budget and requests at once. The best: "
        f"{'; '.join(best_labels) or 'not said'}. The table has every cell.", showlegend=False, shapes=frames,
        xaxis=axis("node budget", tickvals=list(range(len(columns))), ticktext=list(columns), showgrid=False,
                   range=[-HALF_CELL, len(columns) - HALF_CELL]),
        yaxis=axis("requests at once", tickvals=list(range(len(grid))), showgrid=False,
                   range=[-HALF_CELL, len(grid) - HALF_CELL],
                   ticktext=[f"{'▸ ' if count == concurrency else ''}{count}" for count in grid]))


def _tooltip(row: Row) -> str:
    total, record = row.total, row.record
    kind = "seen" if total.low is None else "95 %"
    faster = f"{record.times} plain decoding" if record.times else record.withheld
    return "<br>".join([
        f"<b>{label_of(row.setting)}</b>",
        f"{record.speed} tokens/s in all, {rate_text(row.tokens_per_second.median)} each",
        f"{total.prompts} prompts, {kind}: {range_text(total, 0)}", *wrap(faster, TOOLTIP_WIDTH)])
