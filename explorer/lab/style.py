"""What settings are called in the lab, and how its figures look.

A method keeps one colour, one dash pattern and one marker in all of them. Colours are the page's CSS variables
(``assets/lab/lab.css``), which the browser resolves when it draws, so that one figure serves light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import plotly.graph_objects as go

from engine.decoding.budget_policy import FIXED, MOST_AUTO
from engine.decoding.methods import METHODS
from engine.lab.settings import Setting


def line_of(setting: Setting) -> str:
    """The name of the curve that a setting belongs to: everything but the budget."""
    return setting.curve.label


def label_of(setting: Setting) -> str:
    """The name of a setting, as the page shows it: ``merged each, 64 nodes``, ``ddtree, auto, 8 at once``; a method
    that drafts nothing has no nodes."""
    nodes = [_nodes(setting)] if METHODS[setting.method].drafter_count else []
    return ", ".join([line_of(setting), *nodes, *([f"{setting.concurrency} at once"] if setting.concurrency > 1
                                                  else [])])


def _nodes(setting: Setting) -> str:
    nodes = f"{setting.budget} nodes"
    if setting.pace == FIXED:
        return nodes
    return setting.pace if setting.budget == MOST_AUTO else f"{setting.pace} up to {nodes}"


INK, QUIET, LINE, ACCENT = "var(--ink)", "var(--quiet)", "var(--line)", "var(--accent)"


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


def look(method: str) -> Look:
    """The look of a method. One that this table does not name gets a spare look, by its place in ``METHODS``, so that
    a new method needs no line here; an unknown one, from an uploaded file, is drawn in a colour of its own."""
    unnamed = [name for name in METHODS if name not in LOOKS]
    return LOOKS.get(method) or (SPARE[unnamed.index(method) % len(SPARE)] if method in unnamed else OTHER)


def looks_view() -> dict[str, dict[str, str]]:
    """The looks for the browser, by method; that of the empty name is for methods that are not here."""
    return {**{method: asdict(look(method)) for method in METHODS}, "": asdict(OTHER)}


def paper(height_share: float = 1.0, **layout: Any) -> go.Figure:
    """An empty figure on the page's own ground; ``height_share`` scales the top margin for small figures."""
    ground = "rgba(0,0,0,0)"
    base: dict[str, Any] = {
        "template": go.layout.Template(), "paper_bgcolor": ground, "plot_bgcolor": ground, "autosize": True,
        "margin": {"l": 58, "r": 16, "t": 30 * height_share, "b": 42}, "hovermode": "closest",
        "font": {"color": INK, "size": 13}, "hoverlabel": {"align": "left"}, "uirevision": "lab",
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0, "font": {"size": 12}},
    }
    return go.Figure(layout={**base, **layout})


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with its title, quiet grid lines and no box."""
    return {"title": {"text": title, "font": {"size": 13, "color": QUIET}, "standoff": 6}, "gridcolor": LINE,
            "zeroline": False, "linecolor": LINE, "tickfont": {"color": QUIET, "size": 13}, "automargin": True, **more}


def drawn(figure: go.Figure, summary: str) -> dict[str, Any]:
    """The figure as JSON values for ``Plotly.react``; ``summary`` is what a screen reader says of it."""
    plot: dict[str, Any] = figure.to_plotly_json()
    plot["layout"].pop("template", None)
    return {"data": plot["data"], "layout": plot["layout"], "summary": summary}
