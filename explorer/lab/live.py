"""The figure of a run while it streams: built here once, filled in the browser from the rounds it already has."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from explorer.lab.style import QUIET, axis, drawn, paper

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
