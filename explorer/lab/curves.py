"""τ and tokens per second against the node budget: two stacked plots with one log-2 axis (paper 002, Figure 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, product
from typing import Any

import plotly.graph_objects as go

from engine.lab.statistics import Estimate
from explorer.lab.curve_points import CurveLayer, CurvePoint, Scale, in_words
from explorer.lab.style import ACCENT, INK, QUIET, Look, axis, drawn, look, paper

THIN = 0.45  # of a curve's width: ``auto`` is a horizontal line, to be compared with all curves


def curves_figure(
        layers: Sequence[CurveLayer], best: CurvePoint | None, together: int = 1) -> dict[str, Any]:
    """The figure, its tokens per second those of ``together`` requests. Its ``zero`` and ``auto`` tell the browser
    where these stand on the axis."""
    points = [point for layer in layers for point in layer.points]
    scale = Scale(tuple(sorted({point.setting.budget for point in points if not point.paced})),
                  any(point.paced for point in points))
    ticks = scale.ticks()
    speed = f"tokens per second, {together} at once" if together > 1 else "tokens per second"
    figure = paper(
        xaxis=axis("", type="log", anchor="y", matches="x2", showticklabels=False, **ticks),
        xaxis2=axis("node budget, log₂", type="log", anchor="y2", **ticks),
        yaxis=axis("τ, tokens per round", domain=[0.54, 1], rangemode="tozero"),
        yaxis2=axis(speed, domain=[0, 0.46], anchor="x2", rangemode="tozero"))
    named: set[str] = set()
    for layer in layers:
        for members in _lines(layer.points):
            for side, draw in product(layer.sides, _ways(members[0])):
                figure.add_trace(draw(layer, members, side, scale).update(showlegend=members[0].line not in named))
                named.add(members[0].line)
        if layer.suffix and layer.points:
            figure.add_trace(_key(layer))
    for side in ("tau", "speed"):
        figure.add_trace(_running(side))
    if best is not None:
        _mark(figure, best, scale.at(best))
    return {**drawn(figure, summary(layers, best)), "zero": scale.zero, "auto": scale.auto}


def _lines(points: Iterable[CurvePoint]) -> list[list[CurvePoint]]:
    """The points of each curve in the order of their budgets; one that is a line across stands alone."""
    def curve(point: CurvePoint) -> tuple[str, str]:
        return point.line, point.label if point.paced else ""
    ordered = sorted(points, key=lambda point: (*curve(point), point.setting.budget))
    return [list(members) for _, members in groupby(ordered, key=curve)]


def _ways(point: CurvePoint) -> Sequence[Callable[[CurveLayer, Sequence[CurvePoint], str, Scale], go.Scatter]]:
    """How the curve of a point is drawn: against the budgets, as a line across, or both."""
    if not point.drafts:
        return (_across,)
    return (_curve, _across) if point.paced else (_curve,)


def _curve(layer: CurveLayer, points: Sequence[CurvePoint], side: str, scale: Scale) -> go.Scatter:
    """A method against its budgets."""
    values = [getattr(point, side) for point in points]
    return _trace(layer, points, side).update(
        x=[scale.at(point) for point in points], y=[value.median for value in values],
        error_y=_bars(values, look(points[0].setting.method)) if layer.size else None)


def _across(layer: CurveLayer, points: Sequence[CurvePoint], side: str, scale: Scale) -> go.Scatter:
    """A horizontal line, since no budget of the axis changes it, to compare the curves with: plain decoding's, with
    its marker at 0, and a thin one for ``auto``, whose marker stands in a place of its own."""
    point = points[0]
    sizes, width = ([0, 0], layer.width * THIN) if point.paced else ([layer.size, 0], layer.width)
    return _trace(layer, [point, point], side).update(
        x=scale.across(), y=[getattr(point, side).median] * 2, line_width=width,
        marker={"size": sizes, "opacity": 1, "line": {"width": 0}})


def _trace(layer: CurveLayer, points: Sequence[CurvePoint], side: str) -> go.Scatter:
    """What all lines of a layer share."""
    setting, place_of, name = points[0].setting, "" if side == "tau" else "2", points[0].line + layer.suffix
    seen = look(setting.method)
    return go.Scatter(
        xaxis=f"x{place_of}", yaxis=f"y{place_of}", mode="lines+markers" if layer.size else "lines", name=name,
        legendgroup=points[0].line, opacity=layer.opacity, meta=layer.name,
        line={"color": seen.color, "width": layer.width, "dash": _dash(layer, seen)},
        marker={"symbol": _symbol(layer, seen), "size": layer.size, "color": seen.color},
        customdata=[
            [point.setting.budget, setting.method, in_words(point, side), point.setting.pace] for point in points],
        hovertemplate="%{customdata[2]}" + layer.suffix + "<extra></extra>")


def _key(layer: CurveLayer) -> go.Scatter:
    """An entry of the legend that says how a layer is drawn, so that a method is named there once."""
    return go.Scatter(
        x=[None], y=[None], mode="lines+markers" if layer.size else "lines", name=layer.suffix.removeprefix(", "),
        meta=f"key.{layer.name}", hoverinfo="skip", opacity=layer.opacity,
        line={"color": QUIET, "width": layer.width, "dash": "solid" if layer.size else "dot"},
        marker={"symbol": "circle-open", "size": layer.size, "color": QUIET})


def _dash(layer: CurveLayer, seen: Look) -> str:
    return "dot" if layer.size == 0 else seen.dash


def _symbol(layer: CurveLayer, seen: Look) -> str:
    return seen.symbol if layer.name == "swept" or seen.symbol.endswith("-open") else f"{seen.symbol}-open"


def _bars(values: Sequence[Estimate], seen: Look) -> dict[str, Any]:
    """The 95 % interval; where there are too few values for one, the range from the least to the most."""
    highs = [value.most if value.high is None else value.high for value in values]
    lows = [value.least if value.low is None else value.low for value in values]
    return {"type": "data", "symmetric": False, "thickness": 1.1, "width": 3, "color": seen.color,
            "array": [high - value.median for high, value in zip(highs, values, strict=True)],
            "arrayminus": [value.median - low for low, value in zip(lows, values, strict=True)]}


def _running(side: str) -> go.Scatter:
    """Filled in by the browser: the setting that runs, or that the controls name."""
    place_of = "" if side == "tau" else "2"
    return go.Scatter(
        x=[], y=[], xaxis=f"x{place_of}", yaxis=f"y{place_of}", mode="markers", meta=f"running.{side}",
        showlegend=False, name="running now",
        marker={"symbol": "circle-open", "size": 13, "color": INK, "line": {"width": 2}},
        hovertemplate="this run: %{y:.4~g}<extra></extra>")


def _mark(figure: go.Figure, best: CurvePoint, place: float) -> None:
    """A ring around the fastest setting, with its name."""
    figure.add_trace(go.Scatter(
        x=[place], y=[best.speed.median], xaxis="x2", yaxis="y2", mode="markers", meta="best",
        showlegend=False, hoverinfo="skip",
        marker={"symbol": "circle-open", "size": 19, "color": ACCENT, "line": {"width": 2.5}}))
    figure.add_annotation(
        x=math.log10(place), y=best.speed.median, xref="x2", yref="y2", text=f"fastest: {best.label}", showarrow=True,
        arrowhead=0, arrowcolor=ACCENT, arrowwidth=1, ax=0, ay=-28, font={"color": ACCENT, "size": 12},
        bgcolor="var(--panel)", borderpad=2)


def summary(layers: Sequence[CurveLayer], best: CurvePoint | None) -> str:
    """What the figure shows, in words, for screen readers."""
    lines = sorted({point.line for layer in layers for point in layer.points})
    if not lines:
        return "No setting has been measured."
    fastest = "" if best is None else (
        f" The fastest measured setting is {best.label}: {best.speed.median:.0f} tokens per second, "
        f"τ {best.tau.median:.2f}.")
    return f"τ and tokens per second against the node budget for {', '.join(lines)}.{fastest}"
