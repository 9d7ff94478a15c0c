"""Figures of rounds: acceptance lengths, acceptance by depth and rank, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from engine.lab.settings import Reading
from engine.lab.statistics import CalibrationBin, acceptance, calibration, histogram
from explorer.lab.style import INK, QUIET, axis, drawn, look, paper

Readings = Mapping[tuple[str, str], Sequence[Reading]]  # by method and label, in the order of the legend
MOST_RANKS = 8  # of the depth and rank figure; the last column gathers all worse ranks


def histogram_figure(readings: Readings) -> dict[str, Any]:
    """Share of rounds by tokens committed, root included (paper 002, Figure 4): a line each."""
    figure = paper(
        xaxis=axis("tokens per round, root included", nticks=10),
        yaxis=axis("share of rounds", tickformat=".0%", rangemode="tozero"))
    means = []
    for (method, label), of_setting in readings.items():
        counts = histogram(of_setting)
        rounds, tokens = sum(counts), sum(place * count for place, count in enumerate(counts, start=1))
        figure.add_trace(go.Scatter(
            x=list(range(1, len(counts) + 1)), y=[count / rounds for count in counts], name=label, mode="lines+markers",
            customdata=[[count, rounds] for count in counts], line=line(method),
            marker={"symbol": look(method).symbol, "size": 7, "color": look(method).color},
            hovertemplate=f"{label}: %{{x}} tokens in %{{y:.1%}} of the rounds "
                          "(%{customdata[0]} of %{customdata[1]})<extra></extra>"))
        means.append(f"{label}: mean {tokens / rounds:.2f}")
    return drawn(figure, "Tokens per round: " + "; ".join(means) + ".")


def line(method: str) -> dict[str, Any]:
    """A method's line."""
    return {"color": look(method).color, "dash": look(method).dash, "width": 2.2}


def depth_rank_figure(label: str, readings: Sequence[Reading]) -> dict[str, Any]:
    """How often a proposal of each depth and rank was accepted where verification reached it: a heat map with
    numbers."""
    cells = [cell for cell in acceptance(readings) if cell.depth <= 24]
    folded: dict[tuple[int, int], tuple[int, int]] = {}
    for cell in cells:
        place = cell.depth, min(cell.rank, MOST_RANKS - 1)
        accepted, proposed = folded.get(place, (0, 0))
        folded[place] = accepted + cell.accepted, proposed + cell.proposed
    depths = range(1, max((depth for depth, _ in folded), default=0) + 1)
    shares = [[_share(folded.get((depth, rank))) for rank in range(MOST_RANKS)] for depth in depths]
    counts = [[folded.get((depth, rank), (0, 0)) for rank in range(MOST_RANKS)] for depth in depths]
    names = [*map(str, range(1, MOST_RANKS)), f"{MOST_RANKS}+"]
    figure = paper(
        0.4, xaxis=axis("rank of the token in the drafter's list", tickvals=list(range(MOST_RANKS)), ticktext=names,
                        showgrid=False),
        yaxis=axis("depth after the root", autorange="reversed", dtick=1, showgrid=False))
    figure.add_trace(go.Heatmap(
        z=shares, x=list(range(MOST_RANKS)), y=list(depths), zmin=0, zmax=1, xgap=2, ygap=2, customdata=counts,
        colorscale=[[0, "var(--heat-0)"], [0.5, "var(--heat-1)"], [1, "var(--heat-2)"]], hoverongaps=False,
        text=[["" if share is None else f"{100 * share:.0f}" for share in row] for row in shares],
        texttemplate="%{text}", textfont={"size": 10, "color": INK},
        colorbar={"title": {"text": "accepted", "side": "right", "font": {"size": 11}}, "tickformat": ".0%",
                  "thickness": 10, "outlinewidth": 0, "tickfont": {"size": 10}},
        hovertemplate="depth %{y}, rank %{x}: %{z:.1%} accepted (%{customdata[0]} of %{customdata[1]})<extra></extra>"))
    first = shares[0][0] if shares else None
    spoken = "" if first is None else f" The likeliest token right after the root was accepted in {first:.0%}."
    return drawn(figure, f"Acceptance by depth and rank of {label}.{spoken}")


def _share(counted: tuple[int, int] | None) -> float | None:
    return counted[0] / counted[1] if counted and counted[1] else None


def calibration_figure(readings: Readings) -> dict[str, Any]:
    """Expected length 1 + Σq against the realised one, with the diagonal of a perfectly calibrated drafter."""
    figure = paper(
        0.4, showlegend=False, xaxis=axis("expected tokens per round, 1 + Σq", rangemode="tozero"),
        yaxis=axis("realised tokens per round", rangemode="tozero"))
    calibrations = {name: calibration(of_setting) for name, of_setting in readings.items()}
    most = max((bin_.expected for known in calibrations.values() if known for bin_ in known.bins), default=1.0)
    figure.add_trace(go.Scatter(
        x=[0, most * 1.08], y=[0, most * 1.08], mode="lines", name="perfectly calibrated", hoverinfo="skip",
        line={"color": QUIET, "width": 1.2, "dash": "dot"}))
    figure.add_annotation(
        x=most * 1.04, y=most * 1.04, text="perfectly calibrated", showarrow=False, xanchor="right", yanchor="bottom",
        font={"color": QUIET, "size": 11})
    verdicts = []
    for (method, label), known in calibrations.items():
        if known is None:
            continue
        figure.add_trace(_calibration_trace(method, label, known.bins))
        verdicts.append(f"{label} {verdict(known.excess)}")
    return {**drawn(figure, "Calibration: " + "; ".join(verdicts) + "."), "verdicts": verdicts}


def _calibration_trace(method: str, label: str, bins: Sequence[CalibrationBin]) -> go.Scatter:
    return go.Scatter(
        x=[bin_.expected for bin_ in bins], y=[bin_.realised for bin_ in bins], name=label, mode="lines+markers",
        line=line(method), marker={"symbol": look(method).symbol, "size": 8, "color": look(method).color},
        error_y={"type": "data", "symmetric": False, "thickness": 1, "width": 3, "color": look(method).color,
                 "array": [0 if bin_.high is None else bin_.high - bin_.realised for bin_ in bins],
                 "arrayminus": [0 if bin_.low is None else bin_.realised - bin_.low for bin_ in bins]},
        customdata=[[bin_.rounds] for bin_ in bins],
        hovertemplate=f"{label}: expected %{{x:.2f}}, got %{{y:.2f}} (%{{customdata[0]}} rounds)<extra></extra>")


def verdict(excess: float | None) -> str:
    """What the ratio of expected to accepted draft tokens shows about a drafter."""
    if excess is None:
        return "had nothing accepted"
    if excess > 1.1:
        return f"expects {excess:.2f} times the draft tokens that are accepted: over-confident"
    if excess < 1 / 1.1:
        return f"expects {excess:.2f} times the draft tokens that are accepted: under-confident"
    return f"expects {excess:.2f} times the draft tokens that are accepted: well calibrated"
