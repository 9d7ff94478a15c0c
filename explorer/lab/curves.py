"""τ and tokens per second against the node budget: two stacked plots with one log-2 axis (paper 002, Figure 3)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log10
from typing import Any, TypedDict

from engine.decoding.budget_policy import AUTO, FIXED
from engine.lab.settings import Setting
from engine.lab.statistics import Estimate
from engine.lab.summary import Summary
from explorer.lab.style import (
    ACCENT,
    INK,
    QUIET,
    Figure,
    Part,
    axis,
    curve,
    error_bars,
    figure,
    label_of,
    range_text,
    style_of,
)

PLOTS: Mapping[str, Part] = {"tau": {"xaxis": "x", "yaxis": "y"}, "speed": {"xaxis": "x2", "yaxis": "y2"}}
MARKER_PIXELS = 10


@dataclass(frozen=True)
class CurvePoint:
    """A setting with its τ and tokens/s, None if its speed-up is withheld."""

    setting: Setting
    tau: Estimate
    speed: Estimate | None
    predicted: bool = False

    def words(self, plot: str) -> str:
        value: Estimate = getattr(self, plot)
        unit, digits = ("tokens per round", 2) if plot == "tau" else ("tokens/s", 0)
        kind = "" if value.low is None else ", 95 %"
        spread = f"<br>{value.prompts} prompts{kind}: {range_text(value, digits)}" if value.prompts > 1 else ""
        words = f"<b>{label_of(self.setting)}</b><br>{value.median:.{digits}f} {unit}{spread}"
        return f"{words}, predicted" if self.predicted else words


SPREAD_OCTAVES = 0.07  # between the curves at one budget, so that their intervals stand side by side
AUTO_OPACITY, AUTO_WIDTH = 0.5, 0.45  # of the horizontal line of ``auto``, as a fraction of a curve's


class CurvesFigure(Figure):
    """A figure with a logarithmic budget axis. ``zero``: the x of budget 0, half the smallest budget. ``auto``: the x
    of the budget ``auto``, twice the largest; None if it was not measured."""

    zero: float
    auto: float | None


def curves_figure(swept: Sequence[CurvePoint], predicted: Sequence[CurvePoint], best: CurvePoint | None,
                  concurrency: int = 1) -> CurvesFigure:
    """Draw the figure; its tokens per second are those of ``concurrency`` requests."""
    points = [*swept, *predicted]
    budgets = sorted({point.setting.budget for point in points if point.setting.pace == FIXED})
    zero = min((budget for budget in budgets if budget), default=2) / 2
    ticks = {str(budget): budget or zero for budget in budgets}
    if any(point.setting.pace != FIXED for point in points):
        ticks[AUTO] = 2 * max(ticks.values(), default=1.0)
    across = [zero, max(ticks.values(), default=1.0)]
    drafting = sorted({point.setting.curve_label for point in points if point.setting.drafts})
    shifts = {line: 2 ** (SPREAD_OCTAVES * (index - (len(drafting) - 1) / 2)) for index, line in enumerate(drafting)}

    def x_of(point: CurvePoint) -> float:
        return ticks[point.setting.budget_label] * shifts.get(point.setting.curve_label, 1.0)

    traces = [trace for members in (*_lines(swept), *_lines(predicted)) for trace in _traces(members, x_of, across)]
    named: set[str] = set()
    for trace in traces:  # the legend names a method once
        trace["showlegend"] = trace["legendgroup"] not in named
        named.add(trace["legendgroup"])
    if predicted:
        traces.append(curve("predicted", [None], [None], "", {"color": QUIET, "dash": "dot"}, meta="key",
                            hoverinfo="skip"))
    traces += [_running(plot) for plot in PLOTS]
    notes = []
    if best is not None and best.speed is not None:
        x, y = x_of(best), best.speed.median
        traces.append(curve("", [x], [y], "", {}, mode="markers", meta="best", showlegend=False, hoverinfo="skip",
                            marker={"symbol": "circle-open", "size": 19, "color": ACCENT, "line": {"width": 2.5}},
                            **PLOTS["speed"]))
        notes.append({"x": log10(x), "y": y, "xref": "x2", "yref": "y2", "text": f"fastest: {label_of(best.setting)}",
                      "showarrow": True, "arrowhead": 0, "arrowcolor": ACCENT, "arrowwidth": 1, "ax": 0, "ay": -28,
                      "font": {"color": ACCENT, "size": 12}, "bgcolor": "var(--panel)", "borderpad": 2})
    speed = f"tokens per second, {concurrency} at once" if concurrency > 1 else "tokens per second"
    scale = {"type": "log", "tickvals": list(ticks.values()), "ticktext": list(ticks)}
    drawn = figure(
        traces, _summary(points, best), annotations=notes,
        xaxis=axis("", anchor="y", showticklabels=False, matches="x2", **scale),
        xaxis2=axis("node budget, log₂", anchor="y2", **scale),
        yaxis=axis("τ", domain=[0.54, 1], rangemode="tozero"),
        yaxis2=axis(speed, domain=[0, 0.46], anchor="x2", rangemode="tozero"))
    return {**drawn, "zero": zero, "auto": ticks.get(AUTO)}


def _lines(points: Iterable[CurvePoint]) -> list[list[CurvePoint]]:
    """Group points by curve, in the order of budgets; an ``auto`` point is a curve of its own."""
    def line(point: CurvePoint) -> tuple[str, str]:
        return point.setting.curve_label, label_of(point.setting) if point.setting.pace != FIXED else ""
    ordered = sorted(points, key=lambda point: (*line(point), point.setting.budget))
    return [list(members) for _, members in groupby(ordered, key=line)]


def _traces(points: list[CurvePoint], x_of: Callable[[CurvePoint], float], across: list[float]) -> list[Part]:
    """Draw a curve in both plots. Plain decoding is a horizontal line, since no budget changes it, ``auto`` a thin
    one."""
    traces, first = [], points[0]
    paced = first.setting.pace != FIXED
    for plot in PLOTS:
        drawn = [point for point in points if getattr(point, plot) is not None]
        if not drawn:
            continue
        bars = error_bars([getattr(point, plot) for point in drawn], style_of(first.setting.method).color)
        traces.append(_trace(plot, drawn, list(map(x_of, drawn)), **({} if first.predicted else {"error_y": bars})))
        if paced or not first.setting.drafts:
            line = _trace(plot, [first, first], across, mode="lines", opacity=AUTO_OPACITY if paced else 1)
            line["line"]["width"] *= AUTO_WIDTH if paced else 1
            traces.append(line)
    return traces


def _trace(plot: str, points: Sequence[CurvePoint], x: Sequence[float], **more: Any) -> Part:
    first = points[0]
    style, predicted = style_of(first.setting.method), first.predicted
    line = {"color": style.color, "dash": "dot" if predicted else style.dash, "width": 1.4 if predicted else 2.6}
    return curve(
        first.setting.curve_label, x, [getattr(point, plot).median for point in points], "%{customdata[2]}", line,
        marker={"symbol": style.symbol, "size": MARKER_PIXELS, "color": style.color},
        legendgroup=first.setting.curve_label,
        meta="predicted" if predicted else "swept", customdata=[
            [point.setting.budget, point.setting.method, point.words(plot), point.setting.pace] for point in points],
        **{"mode": "lines" if predicted else "lines+markers", **PLOTS[plot], **more})


def _running(plot: str) -> Part:
    """Return the empty trace in which the browser marks the setting that runs or that the bar names."""
    return curve("running now", (), (), "this run: %{y:.4~g}", {}, mode="markers", meta=f"running.{plot}",
                 showlegend=False, marker={"symbol": "circle-open", "size": 13, "color": INK, "line": {"width": 2}},
                 **PLOTS[plot])


def _summary(points: Sequence[CurvePoint], best: CurvePoint | None) -> str:
    lines = sorted({point.setting.curve_label for point in points})
    if not lines:
        return "No setting has been measured."
    fastest = "" if best is None or best.speed is None else (
        f" The fastest measured setting is {label_of(best.setting)}: {best.speed.median:.0f} tokens per second, "
        f"τ {best.tau.median:.2f}.")
    return f"τ and tokens per second against the node budget for {', '.join(lines)}.{fastest}"


class CurvesView(TypedDict):
    """The curves, and how many points they have."""

    figure: CurvesFigure
    count: int


def curves_view(summary: Summary, predicted: Sequence[CurvePoint] = ()) -> CurvesView:
    """Return the curves of a sweep and of one line of a what-if. Withheld speeds are not drawn."""
    swept = [CurvePoint(row.setting, row.tau, None if row.withheld else row.total) for row in summary.rows]
    best = next((point for point in swept if summary.best and point.setting == summary.best.setting), None)
    return {"figure": curves_figure(swept, predicted, best, summary.counts[0] if summary.counts else 1),
            "count": len(swept) + len(predicted)}
