"""τ and tokens per second against the node budget: two stacked plots with one log-2 axis (paper 002, Figure 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

import plotly.graph_objects as go

from engine.decoding.budget_policy import AUTO, FIXED
from engine.decoding.methods import METHODS
from engine.lab.settings import Setting
from engine.lab.statistics import Estimate
from explorer.lab.style import ACCENT, INK, QUIET, Look, axis, drawn, label_of, line_of, look, paper

RECENT_ROUNDS = 8  # over which the second line of each plot is taken


def live_figure() -> dict[str, Any]:
    """Two stacked plots over rounds: τ, and tokens per second. Every trace names in ``meta`` what it is filled with."""
    figure = paper(
        xaxis=axis("", anchor="y", showticklabels=False, rangemode="tozero", matches="x2"),
        xaxis2=axis("round", anchor="y2", rangemode="tozero"),
        yaxis=axis("τ, tokens per round", domain=[0.54, 1], rangemode="tozero"),
        yaxis2=axis("tokens per second", domain=[0, 0.46], anchor="x2", rangemode="tozero"))
    for name, place, unit in (("tau", "", "tokens per round"), ("speed", "2", "tokens/s")):
        seen = {"xaxis": f"x{place}", "yaxis": f"y{place}", "mode": "lines", "x": [], "y": []}
        first = name == "tau"
        figure.add_trace(go.Scatter(
            **seen, meta=f"{name}.recent", name=f"last {RECENT_ROUNDS} rounds", legendgroup="recent", showlegend=first,
            line={"width": 1.2, "shape": "linear"}, opacity=0.55,
            hovertemplate=f"round %{{x}}: %{{y:.4~g}} {unit}, last {RECENT_ROUNDS}<extra></extra>"))
        figure.add_trace(go.Scatter(
            **seen, meta=f"{name}.all", name="whole run so far", legendgroup="all", showlegend=first,
            line={"width": 2.8}, hovertemplate=f"round %{{x}}: %{{y:.4~g}} {unit} so far<extra></extra>"))
    figure.add_trace(go.Scatter(
        x=[], y=[], xaxis="x2", yaxis="y2", mode="lines", meta="speed.plain", name="plain decoding, measured",
        line={"width": 1.4, "dash": "dot", "color": QUIET},
        hovertemplate="plain decoding: %{y:.4~g} tokens/s<extra></extra>"))
    return drawn(figure, "τ and tokens per second against rounds of the running text.")


@dataclass(frozen=True)
class CurvePoint:
    """A setting with its τ and tokens/s. ``of`` says what the estimates are over: prompts or runs."""

    setting: Setting
    tau: Estimate
    speed: Estimate
    of: str = "prompts"

    @property
    def line(self) -> str:
        """The curve that it belongs to: the method and what else is set besides the budget."""
        return line_of(self.setting)

    @property
    def label(self) -> str:
        """``ddtree, 64 nodes``."""
        return label_of(self.setting)

    @property
    def paced(self) -> bool:
        """Whether every round chooses its own budget."""
        return self.setting.pace != FIXED

    @property
    def drafts(self) -> bool:
        """Whether it drafts any nodes."""
        return METHODS[self.setting.method].drafter_count > 0


@dataclass(frozen=True)
class CurveLayer:
    """Points of one kind, drawn in one way: what was swept, single runs, what is predicted."""

    name: str
    points: Sequence[CurvePoint]
    suffix: str = ""
    width: float = 2.6
    opacity: float = 1.0
    size: int = 10
    sides: Sequence[str] = ("tau", "speed")


def swept(points: Sequence[CurvePoint]) -> CurveLayer:
    """Measured by a sweep: full lines."""
    return CurveLayer("swept", points)


def single(points: Sequence[CurvePoint]) -> CurveLayer:
    """Runs that were asked for one by one: open markers, faint lines."""
    return CurveLayer("runs", points, ", single runs", 1.0, 0.75, 7)


def predicted(points: Sequence[CurvePoint], *, speed: bool = True) -> CurveLayer:
    """Predicted, not measured: thin lines without markers; without ``speed`` of τ alone."""
    sides = ("tau", "speed") if speed else ("tau",)
    return CurveLayer("predicted", points, ", predicted", 1.4, 0.8, 0, sides)


@dataclass(frozen=True)
class Scale:
    """The shared axis, which Plotly draws logarithmic: budgets in their own places, 0 in that of half the smallest
    budget, and ``auto``, which has no number, in that of twice the largest."""

    budgets: tuple[int, ...]
    paced: bool = False

    @property
    def zero(self) -> float:
        """Where a budget of 0 stands."""
        positive = [budget for budget in self.budgets if budget > 0]
        return min(positive) / 2 if positive else 1.0

    def place(self, budget: int) -> float:
        """Where a budget stands."""
        return budget if budget > 0 else self.zero

    @property
    def auto(self) -> float | None:
        """Where ``auto`` stands, if anything does."""
        return 2 * self.place(max(self.budgets, default=1)) if self.paced else None

    def at(self, point: CurvePoint) -> float:
        """Where a point stands."""
        return self.auto if self.auto is not None and point.paced else self.place(point.setting.budget)

    def ticks(self) -> dict[str, Any]:
        """A tick for each budget."""
        places = [(self.place(budget), str(budget)) for budget in self.budgets]
        if self.auto is not None:
            places.append((self.auto, AUTO))
        return {"tickvals": [place for place, _ in places], "ticktext": [text for _, text in places]}

    def across(self) -> list[float]:
        """The ends of a line that no budget changes."""
        return [self.zero, self.place(max(self.budgets, default=1)) if self.auto is None else self.auto]


def in_words(point: CurvePoint, side: str) -> str:
    """A point in words, for its tooltip."""
    value: Estimate = getattr(point, side)
    unit, digits = ("tokens per round", 2) if side == "tau" else ("tokens/s", 0)
    figure = f"<b>{point.label}</b><br>{value.median:,.{digits}f} {unit}"
    if value.prompts < 2:
        return figure
    if value.low is None or value.high is None:
        return f"{figure}<br>{value.prompts} {point.of}, {value.least:,.{digits}f} to {value.most:,.{digits}f}"
    return f"{figure}<br>{value.prompts} {point.of}, 95 %: {value.low:,.{digits}f} to {value.high:,.{digits}f}"


FAINT = 0.5  # of a curve's opacity
THIN = 0.45  # of a curve's width: ``auto`` is a horizontal line, to be compared with all curves


def curves_figure(
        layers: Sequence[CurveLayer], best: CurvePoint | None, concurrency: int = 1) -> dict[str, Any]:
    """The figure, its tokens per second those of ``concurrency`` requests. Its ``zero`` and ``auto`` tell the browser
    where these stand on the axis."""
    points = [point for layer in layers for point in layer.points]
    scale = Scale(tuple(sorted({point.setting.budget for point in points if not point.paced})),
                  any(point.paced for point in points))
    ticks = scale.ticks()
    speed = f"tokens per second, {concurrency} at once" if concurrency > 1 else "tokens per second"
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
    sizes, width, faint = ([0, 0], layer.width * THIN, FAINT) if point.paced else ([layer.size, 0], layer.width, 1)
    return _trace(layer, [point, point], side).update(
        x=scale.across(), y=[getattr(point, side).median] * 2, line_width=width, opacity=layer.opacity * faint,
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
