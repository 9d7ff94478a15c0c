"""Figures of several requests at once: total tokens/s over budget × requests, and tokens/s of each request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from engine.lab.settings import Setting
from explorer.lab.load_cells import PLAIN, LoadCell, LoadGrid, name_of
from explorer.lab.style import ACCENT, INK, QUIET, axis, drawn, look, paper

TOOLTIP = 48  # characters of a line
HALF = 0.5  # of a cell
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star", "hexagon", "pentagon")


def heat_figure(grid: LoadGrid, together: int) -> dict[str, Any]:
    """A cell for each budget and number of requests: its colour and its label are the total tokens/s, a frame marks
    the best of each number, hatching what is predicted. ``together`` is the number that is looked at."""
    names = [name_of(column) for column in grid.columns]
    counts = [f"{'▸ ' if count == together else ''}{count}" for count in grid.counts]
    figure = paper(
        0.4, barmode="overlay", bargap=0, showlegend=False,
        xaxis=axis("node budget", tickvals=list(range(len(names))), ticktext=names, showgrid=False,
                   range=[-HALF, len(names) - HALF]),
        yaxis=axis("requests at once", tickvals=list(range(len(counts))), ticktext=counts, showgrid=False,
                   range=[-HALF, len(counts) - HALF]))
    figure.add_trace(_colours(grid))
    found = [(x, y, cell) for y, count in enumerate(grid.counts) for x, column in enumerate(grid.columns)
             if (cell := grid.at(column, count))]
    figure.add_trace(_hatching([(x, y) for x, y, cell in found if cell.predicted]))
    best = {cell.setting for count in grid.counts if (cell := grid.best(count))}
    figure.add_trace(_labels(found, best))
    for x, y, cell in found:
        if cell.setting in best:
            inset = 0.46
            figure.add_shape(type="rect", x0=x - inset, x1=x + inset, y0=y - inset, y1=y + inset,
                             line={"color": ACCENT, "width": 2.5, "dash": "dot" if cell.predicted else "solid"})
    return drawn(figure, heat_summary(grid))


def _colours(grid: LoadGrid) -> go.Heatmap:
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


def _labels(found: Sequence[tuple[int, int, LoadCell]], best: set[Setting]) -> go.Scatter:
    """The numbers in the cells; those of the best budgets are bold."""
    texts, shorts = ([_label(cell, figure, cell.setting in best) for _, _, cell in found]
                     for figure in (_whole, _short))
    return go.Scatter(
        x=[x for x, _, _ in found], y=[y for _, y, _ in found], mode="text", text=texts, meta="labels",
        textfont={"color": INK, "size": 12}, customdata=[
            [cell_words(cell), short] for (_, _, cell), short in zip(found, shorts, strict=True)],
        hovertemplate="%{customdata[0]}<extra></extra>")


def _label(cell: LoadCell, figure: Callable[[float], str], best: bool) -> str:
    text = f"{'≈' if cell.predicted else ''}{figure(cell.total)}"
    return f"<b>{text}</b>" if best else text


def _whole(total: float) -> str:
    return f"{total:,.0f}"


def _short(total: float) -> str:
    """A number in few characters, for small screens."""
    return f"{total:.0f}" if total < 1000 else f"{total / 1000:.1f}k"


def cell_words(cell: LoadCell) -> str:
    """A cell in words, for its tooltip."""
    count = cell.setting.together
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


def _drafted(cell: LoadCell) -> str:
    name = name_of(cell.setting)
    return "plain decoding" if name == PLAIN else f"{cell.setting.method}, {name} nodes"


def heat_summary(grid: LoadGrid) -> str:
    """The best budgets in words, for screen readers."""
    ridge = [f"{_drafted(cell)} for {count} at once ({cell.total:,.0f} tokens per second"
             f"{', predicted' if cell.predicted else ''})"
             for count in grid.counts if (cell := grid.best(count))]
    if not ridge:
        return grid.withheld or f"Nothing of {grid.curve.label} has been measured yet."
    return (f"Total tokens per second of {grid.curve.label} over node budget and requests at once. The best: "
            f"{'; '.join(ridge)}. The table has every cell.")


def each_figure(grid: LoadGrid) -> dict[str, Any]:
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


def _line(column: Setting, place: int, cells: Sequence[LoadCell]) -> go.Scatter:
    """A budget's line; open markers are predicted."""
    plain = name_of(column) == PLAIN
    colour, symbol = look(column.method).color, SYMBOLS[place % len(SYMBOLS)]
    bounds = [cell.interval("tokens_per_second") or (cell.each, cell.each) for cell in cells]
    return go.Scatter(
        x=[log2(cell.setting.together) for cell in cells], y=[cell.each for cell in cells], mode="lines+markers",
        name=name_of(column),
        line={"color": colour, "width": 2.4 if plain else 1.8, "dash": "dot" if plain else DASHES[place % len(DASHES)]},
        marker={"size": 8, "color": colour,
                "symbol": [f"{symbol}-open" if cell.predicted else symbol for cell in cells]},
        error_y={"type": "data", "symmetric": False, "thickness": 1, "width": 3, "color": colour,
                 "array": [high - cell.each for (_, high), cell in zip(bounds, cells, strict=True)],
                 "arrayminus": [cell.each - low for (low, _), cell in zip(bounds, cells, strict=True)]},
        customdata=[[cell_words(cell)] for cell in cells], hovertemplate="%{customdata[0]}<extra></extra>")
