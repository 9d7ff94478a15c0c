"""The lab's tab of where a tree pays: the anatomy of a run as figures with their sentences, flags to paste, and the run
on another machine, predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import plotly.graph_objects as go

from engine.budget.cost import CostCurve
from engine.lab.anatomy import Anatomy, DrafterAnatomy, anatomy
from engine.lab.anatomy_words import sentences
from engine.lab.machines import FLOOR, LINES, LOOP, PUBLISHED_DEVICE, caution, devices, machine_curve, misfit, models
from engine.lab.paste import Flags, flags_of_run
from engine.lab.redraft import CHAIN, MARGINALS, TRANSITIONS, WIDE
from engine.lab.statistics import Measured
from engine.trace import Trace
from explorer.lab.style import ACCENT, INK, QUIET, axis, drawn, paper
from explorer.view import View

MOST_DEPTHS = 8  # of the spine that are drawn
COLORS = ("var(--drafter1)", "var(--drafter2)", ACCENT, INK)
LOOKS = {CHAIN: (QUIET, "dot"), WIDE: (INK, "dash"), MARGINALS: ("var(--method-ddtree)", "solid"),
         TRANSITIONS: ("var(--method-joint)", "dashdot")}


def anatomy_view(trace: Trace, cost: CostCurve | None, model: str, device: str) -> View:
    """{"figures": siblings, rows, nodes, trees, each a figure or None; "elsewhere": the predicted one or None;
    "sentences": by figure; "flags": [{engine, flags, expected}]; "priced": by whose cost; "misfit": why there is no
    prediction; "caution", "rounds", "models", "devices", "model", "device"}. ``cost`` is what rounds cost on the rig
    that answers, None where that was not measured."""
    anatomy_ = anatomy([trace])
    model = model if model in models() else next(iter(models()))
    device = device if device in devices() else PUBLISHED_DEVICE
    reason = misfit(model, device)
    curves = {} if reason else {line: machine_curve(model, device, line) for line in LINES}
    return {
        "figures": {"siblings": siblings_figure(anatomy_.drafters), "rows": rows_figure(anatomy_.by_rank),
                    "nodes": nodes_figure(anatomy_), "trees": trees_figure(anatomy_)},
        "elsewhere": elsewhere_figure(anatomy_, curves), "sentences": sentences(anatomy_), "misfit": reason,
        **_flags(anatomy_, cost or curves.get(LOOP)), "caution": caution(), "rounds": anatomy_.rounds,
        "models": list(models()), "devices": list(devices()), "model": model, "device": device}


def _flags(anatomy_: Anatomy, cost: CostCurve | None) -> View:
    """The flags to paste, and by whose cost they are the best."""
    return {"flags": flags_view(flags_of_run(anatomy_, cost) if cost else []),
            "priced": cost.hardware if cost else ""}


def flags_view(rows: Sequence[Flags]) -> list[View]:
    """Flags as JSON values."""
    return [asdict(flags) for flags in rows]


def _bars(figure: go.Figure, bars: Mapping[str, Measured], name: str, color: str) -> None:
    """Bars of measured values with their intervals."""
    values = list(bars.values())
    figure.add_trace(go.Bar(
        x=list(bars), y=[value.value for value in values], name=name, marker={"color": color},
        error_y=_error(values), customdata=[[value.low, value.high, value.count] for value in values],
        hovertemplate=f"{name}, %{{x}}: %{{y:.2f}} (%{{customdata[0]:.2f}} to %{{customdata[1]:.2f}} of "
                      "%{customdata[2]})<extra></extra>"))


def _error(values: Sequence[Measured]) -> View:
    return {"type": "data", "symmetric": False, "array": [value.high - value.value for value in values],
            "arrayminus": [value.value - value.low for value in values], "color": QUIET, "thickness": 1.2, "width": 3}


def siblings_figure(drafters: Sequence[DrafterAnatomy]) -> View | None:
    """How often the drafter's first proposal was right, by depth on the spine and after a sibling."""
    shown = [drafter for drafter in drafters if drafter.spine]
    if not shown:
        return None
    figure = paper(xaxis=axis("on the spine, by depth; after an accepted sibling", type="category"),
                   yaxis=axis("first proposal right", tickformat=".0%", range=[0, 1]), barmode="group")
    names = {1: "after 2nd", 2: "after 3rd", 3: "after 4th+"}
    for drafter, color in zip(shown, COLORS, strict=False):
        spine = {f"{depth}": share for depth, share in enumerate(drafter.spine[:MOST_DEPTHS], 1)}
        _bars(figure, {**spine, **{names[rank]: share for rank, share in drafter.after.items()}}, drafter.name, color)
    return drawn(figure, "How often the drafter's first proposal was right, with 95 % intervals.")


def rows_figure(by_rank: Mapping[int, Measured]) -> View | None:
    """Tokens that a verified row earned, by its place among its siblings."""
    if not by_rank:
        return None
    figure = paper(xaxis=axis("place among its siblings", type="category"),
                   yaxis=axis("tokens a verified row", rangemode="tozero"))
    _bars(figure, {str(rank + 1): share for rank, share in list(by_rank.items())[:MOST_DEPTHS]}, "sibling", COLORS[0])
    return drawn(figure, "Tokens earned by a verified row, by its place among its siblings, with 95 % intervals.")


def nodes_figure(anatomy_: Anatomy) -> View | None:
    """The drafted tokens that a round keeps with the first nodes of its tree alone."""
    if len(anatomy_.first_nodes) < 2:
        return None
    figure = paper(xaxis=axis("the most probable nodes of the tree", type="category"),
                   yaxis=axis("drafted tokens kept", rangemode="tozero"))
    _bars(figure, {str(size): mean for size, mean in anatomy_.first_nodes.items()}, "kept", "var(--method-ddtree)")
    return drawn(figure, "Drafted tokens kept by a round if it verified so many nodes, with 95 % intervals.")


def trees_figure(anatomy_: Anatomy) -> View | None:
    """Chain, wider chain and trees at the same places, of the drafter with the most of them."""
    if not anatomy_.redrafts:
        return None
    drafter = max(anatomy_.redrafts, key=lambda row: row.accepted.count).drafter
    figure = paper(xaxis=axis("drafted nodes", type="category"),
                   yaxis=axis("drafted tokens kept", rangemode="tozero"))
    sizes = {row.budget for row in anatomy_.redrafts if row.drafter == drafter and row.kind == WIDE}
    for kind, (color, dash) in LOOKS.items():
        rows = sorted((row for row in anatomy_.redrafts if (row.drafter, row.kind) == (drafter, kind)
                       and row.budget in sizes), key=lambda row: row.budget)
        if rows:
            figure.add_trace(go.Scatter(
                x=[str(row.budget) for row in rows], y=[row.accepted.value for row in rows], mode="lines+markers",
                name=kind, line={"color": color, "dash": dash, "width": 2},
                error_y=_error([row.accepted for row in rows]),
                hovertemplate=f"{kind}, %{{x}} nodes: %{{y:.2f}} kept<extra></extra>"))
    return drawn(figure, f"Drafted tokens kept with other trees of {drafter}'s drafts, with 95 % intervals.")


def elsewhere_figure(anatomy_: Anatomy, curves: Mapping[str, CostCurve]) -> View | None:
    """The run's trees on another machine: measured τ over the predicted cost of a round, by node budget."""
    kept = {size: mean.value for size, mean in anatomy_.first_nodes.items()}
    if not kept or not curves:
        return None
    figure = paper(xaxis=axis("drafted nodes", type="category"),
                   yaxis=axis("× plain decoding, predicted", rangemode="tozero"))
    for (line, curve), (color, dash) in zip(curves.items(), ((QUIET, "dot"), (ACCENT, "dash")), strict=True):
        name = f"{line}, predicted"
        figure.add_trace(go.Scatter(
            x=[str(size) for size in kept], mode="lines+markers", name=name, line={"color": color, "dash": dash},
            y=[(1 + value) * curve.plain_ms / curve.round_ms(size + 1, size, 1) for size, value in kept.items()],
            hovertemplate=f"{name}: %{{x}} nodes, %{{y:.2f}}×<extra></extra>"))
    return drawn(figure, f"Predicted speed-up of this run's trees by budget, as the {FLOOR} and as the {LOOP}.")
