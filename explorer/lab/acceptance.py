"""Figures of rounds: how long they are, which proposals are accepted, how well the drafter knows it. Of a single run
also what its rows earned and what other trees would have kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypedDict

from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.lab.anatomy import Anatomy, anatomy, sentences
from engine.lab.reading import Reading, reading_of
from engine.lab.redraft import CHAIN, MARGINALS, TRANSITIONS, WIDE
from engine.lab.settings import CellResult
from engine.lab.statistics import CalibrationBin, Measured, acceptance, calibration, histogram, share_of
from engine.trace import Trace
from explorer.lab.style import INK, QUIET, Figure, Part, axis, curve, error_bars, figure, heat_map, style_of

MAX_RANKS = 8  # of the depth and rank figure; the last column gathers all worse ranks
MAX_DEPTH = 24  # of that figure
MIN_PROPOSALS = 10  # below it, both counts are printed instead of a percentage
KINDS = {CHAIN: (QUIET, "dot"), WIDE: (INK, "dash"), MARGINALS: ("var(--method-ddtree)", "solid"),
         TRANSITIONS: ("var(--method-joint)", "dashdot")}


@dataclass(frozen=True)
class Rounds:
    """The rounds of a figure, with their method and label."""

    method: str
    label: str
    readings: Sequence[Reading]


class AcceptanceView(TypedDict, total=False):
    """The figures, None if the rounds lack their data. Empty if nothing was drafted. ``rows``, ``nodes``, ``trees`` and
    the sentences in ``words`` are only there for a single run."""

    lengths: Figure
    map: Figure
    calibration: Figure | None
    rows: Figure | None
    nodes: Figure | None
    trees: Figure | None
    words: Mapping[str, list[str]]


def rounds_of_run(trace: Trace) -> Rounds | None:
    """Return the rounds of a run; None if it drafted nothing, or if its engine did not report rounds."""
    method = trace.header.request.method
    plain = method in METHODS and not METHODS[method].drafter_count
    return None if plain or trace.header.chunked or not trace.entries else Rounds(method, method, [reading_of(trace)])


def rounds_at(measured: Sequence[CellResult], nodes: str, line: str) -> Rounds:
    """Return the rounds of the curve ``line``, or else of the first one, at the budget ``nodes``, a number or auto.
    RequestError if nothing drafted at it."""
    found = [(result.cell.setting.curve_label, result) for result in measured
             if result.reading and result.cell.setting.budget_label == nodes and result.cell.setting.drafts]
    if not found:
        raise RequestError(f"Nothing was measured at the budget {nodes[:20]!r} yet; choose another one.")
    label = line if line in dict(found) else found[0][0]
    results = [result for name, result in found if name == label]
    return Rounds(results[0].cell.setting.method, label, [result.reading for result in results if result.reading])


def acceptance_view(rounds: Rounds | None) -> AcceptanceView:
    """Return the figures of these rounds, without those of single runs."""
    if rounds is None:
        return {}
    has_expectations = all(isfinite(length) for reading in rounds.readings for length in reading.expected)
    return {"lengths": lengths_figure(rounds), "map": map_figure(rounds),
            "calibration": calibration_figure(rounds) if has_expectations else None}


def run_view(trace: Trace) -> AcceptanceView:
    """Return all figures of a run."""
    parts = anatomy([trace])
    rows = {rank + 1: earned for rank, earned in list(parts.by_rank.items())[:MAX_RANKS]}
    rows_figure = _measured_figure(
        [_dots("sibling", rows, style_of("ddtree").color)] if rows else [],
        "Tokens earned by a verified row, by its place among its siblings, with 95 % intervals.",
        "place among its siblings", "tokens a verified row")
    nodes_figure = _measured_figure(
        [_dots("kept", parts.first_nodes, style_of("ddtree").color)] if len(parts.first_nodes) > 1 else [],
        "Drafted tokens kept by a round if it verified so many nodes, with 95 % intervals.",
        "most probable nodes", "drafted tokens kept")
    return {**acceptance_view(rounds_of_run(trace)), "rows": rows_figure, "nodes": nodes_figure,
            "trees": trees_figure(parts), "words": sentences(parts)}


def _dots(name: str, values: Mapping[Any, Measured | CalibrationBin], color: str, **line: Any) -> Part:
    heights = [value.value if isinstance(value, Measured) else value.realised for value in values.values()]
    marks = ["circle-open" if value.low == value.high else "circle" for value in values.values()]  # hollow: no interval
    return curve(name, values, heights, f"{name}, %{{x}}: %{{y:.3~g}} (%{{customdata[0]}})",
                 {"color": color, "width": 2, **line}, mode="lines+markers",
                 marker={"size": 8, "color": color, "symbol": marks},
                 error_y=error_bars(list(values.values()), color),
                 customdata=[[value.count if isinstance(value, Measured) else f"{value.rounds} rounds"]
                             for value in values.values()])


def _measured_figure(traces: Sequence[Part], summary: str, x: str, y: str) -> Figure | None:
    """Draw a figure over categories; None without traces."""
    return figure(traces, summary, xaxis=axis(x, type="category"), yaxis=axis(y, rangemode="tozero"),
                  showlegend=len(traces) > 1) if traces else None


def lengths_figure(rounds: Rounds) -> Figure:
    """Plot the share of rounds by tokens committed, root included (paper 002, Figure 4), with intervals."""
    counts = histogram(rounds.readings)
    total = sum(counts)
    shares = {length: share_of(count, total) for length, count in enumerate(counts, start=1)}
    mean = sum(length * count for length, count in enumerate(counts, start=1)) / total
    rule = {"type": "line", "x0": mean, "x1": mean, "y0": 0, "y1": 1, "yref": "paper",
            "line": {"color": QUIET, "width": 1.2, "dash": "dot"}}
    note = {"x": mean, "y": 1, "yref": "paper", "yanchor": "top", "xanchor": "left", "showarrow": False,
            "text": f" mean {mean:.2f}", "font": {"color": QUIET, "size": 12}}
    return figure([_dots(rounds.label, shares, style_of(rounds.method).color)],
                  f"Tokens per round of {rounds.label}: mean {mean:.2f}.", showlegend=False, shapes=[rule],
                  annotations=[note],
                  xaxis=axis("tokens per round, root included", dtick=1 + len(counts) // 10),
                  yaxis=axis("share of rounds", tickformat=".0%", rangemode="tozero"))


def map_figure(rounds: Rounds) -> Figure:
    """Plot as a heat map how often a proposal of each depth and rank was accepted when verification reached it."""
    cells = [cell for cell in acceptance(rounds.readings) if cell.depth <= MAX_DEPTH]
    ranks = range(min(MAX_RANKS, max((cell.rank for cell in cells), default=0) + 1))
    depths = range(1, max((cell.depth for cell in cells), default=0) + 1)
    counts = [[[0, 0] for _ in ranks] for _ in depths]  # accepted, proposed
    for cell in cells:
        count = counts[cell.depth - 1][min(cell.rank, MAX_RANKS - 1)]
        count[0] += cell.accepted
        count[1] += cell.proposed
    shares = [[accepted / proposed if proposed else None for accepted, proposed in row] for row in counts]
    heat = heat_map(
        shares, x=list(ranks), y=list(depths), zmax=1, xgap=2, ygap=2, customdata=counts,
        text=[[_share_text(*count) for count in row] for row in counts],
        texttemplate="%{text}", textfont={"size": 10, "color": INK},
        hovertemplate="depth %{y}, rank %{x}: %{z:.1%} accepted (%{customdata[0]} of %{customdata[1]})<extra></extra>")
    first = shares[0][0] if shares else None
    spoken = "" if first is None else f" The likeliest token right after the root was accepted in {first:.0%}."
    return figure(
        [heat], f"Acceptance by depth and rank of {rounds.label}.{spoken}", showlegend=False,
        xaxis=axis("rank in the drafter's list", tickvals=list(ranks), showgrid=False,
                   ticktext=[f"{rank + 1}{'+' if rank + 1 == MAX_RANKS else ''}" for rank in ranks]),
        yaxis=axis("depth after the root", autorange="reversed", dtick=1, showgrid=False))


def _share_text(accepted: int, proposed: int) -> str:
    """Format the percentage that was accepted; below ``MIN_PROPOSALS``, both counts."""
    if proposed < MIN_PROPOSALS:
        return f"{accepted}/{proposed}" if proposed else ""
    return f"{100 * accepted / proposed:.0f}"


def calibration_figure(rounds: Rounds) -> Figure:
    """Plot expected length 1 + Σq against the realised one, with the diagonal of perfect calibration."""
    result = calibration(rounds.readings)
    bins = {bin_.expected: bin_ for bin_ in result.bins} if result else {}
    max_expected = max(bins, default=1.0)
    diagonal = curve("perfectly calibrated", [0, max_expected * 1.08], [0, max_expected * 1.08], "",
                     {"color": QUIET, "width": 1.2, "dash": "dot"}, hoverinfo="skip")
    note = {"x": 1, "y": 0, "xref": "paper", "yref": "paper", "text": "dotted: perfectly calibrated",
            "showarrow": False, "xanchor": "right", "yanchor": "bottom", "font": {"color": QUIET, "size": 11}}
    points = _dots(rounds.label, bins, style_of(rounds.method).color)
    points["error_y"]["width"] = 0  # the ends of an interval of no length would cross out its point
    return figure(
        [diagonal, {**points, "mode": "markers"}],
        f"Calibration: {rounds.label} {verdict(result.excess if result else None)}.", showlegend=False,
        annotations=[note], xaxis=axis("expected tokens, 1 + Σq", rangemode="tozero"),
        yaxis=axis("realised tokens per round", rangemode="tozero"))


def verdict(excess: float | None) -> str:
    """Judge a drafter by its ratio of expected to accepted draft tokens."""
    if excess is None:
        return "had nothing accepted"
    kind = "over-confident" if excess > 1.1 else "under-confident" if excess < 1 / 1.1 else "well calibrated"
    return f"expects {excess:.2f} times the draft tokens that are accepted: {kind}"


def trees_figure(parts: Anatomy) -> Figure | None:
    """Draw chain, wider chain and trees at the same places, of the drafter with the most of them."""
    if not parts.redrafts:
        return None
    drafter = max(parts.redrafts, key=lambda redraft: redraft.accepted.count).drafter
    of_drafter = sorted((redraft for redraft in parts.redrafts if redraft.drafter == drafter),
                        key=lambda redraft: redraft.budget)
    sizes = {redraft.budget for redraft in of_drafter if redraft.kind == WIDE}
    by_kind = {kind: {str(redraft.budget): redraft.accepted for redraft in of_drafter
                      if redraft.kind == kind and redraft.budget in sizes} for kind in KINDS}
    return _measured_figure(
        [_dots(kind, accepted, KINDS[kind][0], dash=KINDS[kind][1]) for kind, accepted in by_kind.items() if accepted],
        f"Drafted tokens kept with other trees of {drafter}'s drafts, with 95 % intervals.", "drafted nodes",
        "drafted tokens kept")
