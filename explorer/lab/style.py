"""What settings are called in the lab, and how its figures look.

A figure is JSON for ``Plotly.react``: {data, layout, summary}, the summary being what a screen reader says of it. It is
made of plain dictionaries, since plotly's own objects check every value anew, which takes longer than all the rest; the
tests check them. A method keeps one colour, one dash pattern and one marker in all figures. Colours are the page's CSS
variables (``assets/lab/lab.css``), which the browser resolves when it draws, so one figure serves light and dark.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from types import MappingProxyType
from typing import Any, TypedDict

from engine.decoding.budget_policy import FIXED, MAX_AUTO_NODES
from engine.decoding.methods import METHODS
from engine.lab.settings import Setting
from engine.lab.statistics import CalibrationBin, Estimate, Measured

Part = dict[str, Any]  # of a figure, in plotly's names


class Figure(TypedDict):
    """What ``Plotly.react`` draws, and what a screen reader says of it."""

    data: list[Part]
    layout: Part
    summary: str


def label_of(setting: Setting) -> str:
    """Return the name of a setting, as the page shows it: ``merged each, 64 nodes``, ``ddtree, auto, 8 at once``."""
    parts = [setting.curve_label]
    if setting.drafts:
        nodes = f"{setting.budget} node{'s' if setting.budget != 1 else ''}"
        usual_auto = setting.pace if setting.budget == MAX_AUTO_NODES else f"{setting.pace} up to {nodes}"
        parts.append(nodes if setting.pace == FIXED else usual_auto)
    if setting.concurrency > 1:
        parts.append(f"{setting.concurrency} at once")
    return ", ".join(parts)


INK, QUIET, LINE, ACCENT = "var(--ink)", "var(--quiet)", "var(--line)", "var(--accent)"
NO_COLOR = "rgba(0,0,0,0)"
Interval = Estimate | Measured | CalibrationBin  # a figure with its interval


@dataclass(frozen=True)
class Look:
    """Colour, dash pattern and marker symbol of a method, in plotly's names."""

    color: str
    dash: str
    symbol: str


LOOKS: Mapping[str, Look] = MappingProxyType({
    "autoregressive": Look("var(--method-plain)", "dot", "x"),
    "dflash": Look("var(--method-dflash)", "dashdot", "square"),
    "ddtree": Look("var(--method-ddtree)", "solid", "circle"),
    "routed": Look("var(--method-routed)", "dash", "triangle-up"),
    "merged": Look("var(--method-merged)", "longdash", "diamond"),
    "joint": Look("var(--method-joint)", "14px,3px,2px,3px,2px,3px", "star"),
    "expand": Look("var(--method-expand)", "dashdot", "hexagon"),
    "nanogpt": Look("var(--method-nanogpt)", "dash", "triangle-down"),
    "nanogpt_ratio": Look("var(--method-nanogpt)", "dot", "triangle-down-open"),
})
SPARE = tuple(Look(f"var(--method-spare-{number})", dash, symbol) for number, (dash, symbol) in enumerate(
    (("longdashdot", "pentagon"), ("dash", "star-square"), ("dashdot", "hourglass"), ("longdash", "bowtie")), start=1))
OTHER = Look("var(--method-other)", "longdashdot", "cross")


def style_of(method: str) -> Look:
    """Return a method's look: a spare one if ``LOOKS`` lacks it, ``OTHER`` if it is unknown, as in an uploaded file."""
    unnamed = [name for name in METHODS if name not in LOOKS]
    return LOOKS.get(method) or (SPARE[unnamed.index(method) % len(SPARE)] if method in unnamed else OTHER)


def figure(traces: Sequence[Part], summary: str, **layout: Any) -> Figure:
    """Make a figure with the page's own fonts and background."""
    legend = layout.get("showlegend", True)
    base = {
        "paper_bgcolor": NO_COLOR, "plot_bgcolor": NO_COLOR, "autosize": True, "hovermode": "closest",
        "margin": {"l": 58, "r": 16, "t": 30 if legend else 12, "b": 42},
        "font": {"color": INK, "size": 13}, "hoverlabel": {"align": "left"}, "uirevision": "lab",
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0, "font": {"size": 11}}}
    return {"data": list(traces), "layout": {**base, **layout}, "summary": summary}


def axis(title: str, **more: Any) -> Part:
    """Make an axis with a title and quiet grid lines."""
    return {"title": {"text": title, "font": {"size": 13, "color": QUIET}, "standoff": 6}, "gridcolor": LINE,
            "zeroline": False, "linecolor": LINE, "tickfont": {"color": QUIET, "size": 13}, "automargin": True, **more}


def curve(name: str, x: Iterable[Any], y: Iterable[float | None], hover: str, line: Part, **more: Any) -> Part:
    """Draw a line whose tooltips follow the template ``hover``."""
    return {"type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y), "line": line,
            "hovertemplate": f"{hover}<extra></extra>", **more}


def span(value: Interval) -> tuple[float, float, float]:
    """Return low, middle and high of a figure: its 95 % interval, or the range if there are too few values."""
    if isinstance(value, Estimate):
        low, high = value.span
        return low, value.median, high
    middle = value.realised if isinstance(value, CalibrationBin) else value.value
    return (middle if value.low is None else value.low), middle, (middle if value.high is None else value.high)


def range_text(value: Estimate, digits: int) -> str:
    """Format the ends of the value's span."""
    low, high = value.span
    return f"{low:.{digits}f} to {high:.{digits}f}"


def error_bars(values: Sequence[Interval], color: str) -> Part:
    """Return the values' spans as plotly draws them."""
    spans = list(map(span, values))
    return {"type": "data", "symmetric": False, "thickness": 1.1, "width": 3, "color": color,
            "array": [high - value for _, value, high in spans],
            "arrayminus": [value - low for low, value, _ in spans]}


def heat_map(values: Sequence[Sequence[float | None]], **more: Any) -> Part:
    """Draw cells coloured by their values, without a scale, since their numbers are printed in them."""
    return {"type": "heatmap", "z": values, "zmin": 0, "hoverongaps": False, "showscale": False,
            "colorscale": [[0, "var(--heat-0)"], [0.5, "var(--heat-1)"], [1, "var(--heat-2)"]], **more}


def log_axis(title: str, low: float, high: float, **more: Any) -> Part:
    """Make a logarithmic axis from ``low`` to ``high``, both above 0, with ticks at 1, 2, 5, 10, 20, 50 and so on."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
    shown = [tick for tick in ticks if low <= tick <= high] or [low]
    return axis(title, type="log", range=[log10(low), log10(high)], tickvals=shown,
                ticktext=[f"{tick:g}" for tick in shown], **more)
