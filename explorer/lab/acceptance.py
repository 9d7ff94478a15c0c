"""Figures of rounds: how long they are, which proposals are accepted, how well the drafter knows it, and where a tree
pays, with flags to paste and the run on another machine, predicted."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from engine.budget.cost import CostCurve
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.lab.anatomy import Anatomy, anatomy, sentences
from engine.lab.machines import (
    FLOOR,
    LINES,
    LOOP,
    PUBLISHED_DEVICE,
    caution,
    devices,
    flags_of_run,
    machine_curve,
    misfit,
    models,
)
from engine.lab.reading import Reading, reading_of
from engine.lab.redraft import CHAIN, MARGINALS, TRANSITIONS, WIDE
from engine.lab.settings import CellResult
from engine.lab.statistics import Measured, acceptance, calibration, histogram
from engine.trace import Trace
from explorer.lab.style import (
    ACCENT,
    INK,
    QUIET,
    axis,
    curve,
    drafts,
    error_bars,
    figure,
    heat_map,
    line_of,
    look,
    method_look,
)
from explorer.view import View

Readings = Mapping[tuple[str, str], Sequence[Reading]]  # by method and label, in the order of the legend
MAX_RANKS = 8  # of the depth and rank figure; the last column gathers all worse ranks
DEEPEST = 24  # depth of that figure


def readings_of_run(trace: Trace) -> Readings:
    """The readings of a run; none if it drafted nothing, or does not say in rounds what it did."""
    method = trace.header.request.method
    plain = method in METHODS and not METHODS[method].drafter_count
    if plain or trace.header.chunked or not trace.entries:
        return {}
    return {(method, method): [reading_of(trace)]}


def readings_at(measured: Sequence[CellResult], nodes: str) -> Readings:
    """The readings of every drafting setting with that budget, a number or ``auto``; RequestError if none is."""
    readings: dict[tuple[str, str], list[Reading]] = defaultdict(list)
    for result in measured:
        setting = result.cell.setting
        if result.reading and setting.nodes == nodes and drafts(setting):
            readings[setting.method, line_of(setting)].append(result.reading)
    if not readings:
        raise RequestError(f"Nothing was measured at the budget {nodes[:20]!r} yet; choose another one.")
    return dict(readings)


def acceptance_view(readings: Readings, line: str) -> View:
    """{"histogram", "map": of the method with that curve, else of the first, "calibration"}, each a figure; empty if
    nothing was drafted, "calibration" None if the drafter's probabilities are not known."""
    if not readings:
        return {}
    by_label = {label: of_label for (_, label), of_label in readings.items()}
    label = line if line in by_label else next(iter(by_label))
    believed = all(isfinite(length) for runs in readings.values() for reading in runs for length in reading.expected)
    return {"histogram": histogram_figure(readings), "map": depth_rank_figure(label, by_label[label]),
            "calibration": calibration_figure(readings) if believed else None}


def histogram_figure(readings: Readings) -> View:
    """Share of rounds by tokens committed, root included (paper 002, Figure 4): a line each."""
    traces, means = [], []
    for (method, label), of_setting in readings.items():
        counts = histogram(of_setting)
        rounds, tokens = sum(counts), sum(length * count for length, count in enumerate(counts, start=1))
        traces.append(curve(
            label, range(1, len(counts) + 1), [count / rounds for count in counts],
            f"{label}: %{{x}} tokens in %{{y:.1%}} of the rounds (%{{customdata[0]}} of %{{customdata[1]}})",
            mode="lines+markers", customdata=[[count, rounds] for count in counts], **method_look(method)))
        means.append(f"{label}: mean {tokens / rounds:.2f}")
    return figure(traces, "Tokens per round: " + "; ".join(means) + ".",
                  xaxis=axis("tokens per round, root included", nticks=10),
                  yaxis=axis("share of rounds", tickformat=".0%", rangemode="tozero"))


def depth_rank_figure(label: str, readings: Sequence[Reading]) -> View:
    """How often a proposal of each depth and rank was accepted where verification reached it: a heat map with
    numbers."""
    cells = [cell for cell in acceptance(readings) if cell.depth <= DEEPEST]
    ranks, depths = range(MAX_RANKS), range(1, max((cell.depth for cell in cells), default=0) + 1)
    counts = [[[0, 0] for _ in ranks] for _ in depths]  # accepted, proposed
    for cell in cells:
        count = counts[cell.depth - 1][min(cell.rank, MAX_RANKS - 1)]
        count[0] += cell.accepted
        count[1] += cell.proposed
    shares = [[accepted / proposed if proposed else None for accepted, proposed in row] for row in counts]
    heat = heat_map(
        shares, "accepted", x=list(ranks), y=list(depths), zmax=1, xgap=2, ygap=2, tickformat=".0%",
        customdata=counts,
        text=[["" if share is None else f"{100 * share:.0f}" for share in row] for row in shares],
        texttemplate="%{text}", textfont={"size": 10, "color": INK},
        hovertemplate="depth %{y}, rank %{x}: %{z:.1%} accepted (%{customdata[0]} of %{customdata[1]})<extra></extra>")
    first = shares[0][0] if shares else None
    spoken = "" if first is None else f" The likeliest token right after the root was accepted in {first:.0%}."
    return figure(
        [heat], f"Acceptance by depth and rank of {label}.{spoken}", showlegend=False,
        xaxis=axis("rank of the token in the drafter's list", tickvals=list(ranks), showgrid=False,
                   ticktext=[*map(str, range(1, MAX_RANKS)), f"{MAX_RANKS}+"]),
        yaxis=axis("depth after the root", autorange="reversed", dtick=1, showgrid=False))


def calibration_figure(readings: Readings) -> View:
    """Expected length 1 + Σq against the realised one, with the diagonal of a perfectly calibrated drafter."""
    calibrations = {name: known for name, of_setting in readings.items() if (known := calibration(of_setting))}
    most = max((bin_.expected for known in calibrations.values() for bin_ in known.bins), default=1.0)
    ends, verdicts = [0, most * 1.08], []
    traces = [curve("perfectly calibrated", ends, ends, "", {"color": QUIET, "width": 1.2, "dash": "dot"},
                    hoverinfo="skip")]
    for (method, label), known in calibrations.items():
        traces.append(curve(
            label, [bin_.expected for bin_ in known.bins], [bin_.realised for bin_ in known.bins],
            f"{label}: expected %{{x:.2f}}, got %{{y:.2f}} (%{{customdata[0]}} rounds)", mode="lines+markers",
            error_y=error_bars(known.bins, look(method).color),
            customdata=[[bin_.rounds] for bin_ in known.bins], **method_look(method, size=8)))
        verdicts.append(f"{label} {verdict(known.excess)}")
    note = {"x": most * 1.04, "y": most * 1.04, "text": "perfectly calibrated", "showarrow": False, "xanchor": "right",
            "yanchor": "bottom", "font": {"color": QUIET, "size": 11}}
    return figure(
        traces, "Calibration: " + "; ".join(verdicts) + ".", showlegend=False, annotations=[note],
        xaxis=axis("expected tokens per round, 1 + Σq", rangemode="tozero"),
        yaxis=axis("realised tokens per round", rangemode="tozero"))


def verdict(excess: float | None) -> str:
    """What the ratio of expected to accepted draft tokens shows about a drafter."""
    if excess is None:
        return "had nothing accepted"
    kind = "over-confident" if excess > 1.1 else "under-confident" if excess < 1 / 1.1 else "well calibrated"
    return f"expects {excess:.2f} times the draft tokens that are accepted: {kind}"


MAX_DEPTHS = 8  # of the greedy path that are drawn
COLORS = ("var(--drafter1)", "var(--drafter2)", ACCENT, INK)
KINDS = {CHAIN: (QUIET, "dot"), WIDE: (INK, "dash"), MARGINALS: ("var(--method-ddtree)", "solid"),
         TRANSITIONS: ("var(--method-joint)", "dashdot")}


def anatomy_view(trace: Trace, cost: CostCurve | None, model: str, device: str) -> View:
    """{"figures": siblings, rows, nodes, trees, elsewhere (predicted), each a figure or None; "sentences": by figure;
    "flags": [{engine, flags, expected}]; "priced": by whose cost; "misfit": why there is no prediction; "caution",
    "rounds", "models", "devices", "model", "device"}. ``cost`` is what rounds cost on the rig that answers, None if
    that was not measured."""
    parts = anatomy([trace])
    model = model if model in models() else next(iter(models()))
    device = device if device in devices() else PUBLISHED_DEVICE
    reason = misfit(model, device)
    curves = {} if reason else {line: machine_curve(model, device, line) for line in LINES}
    cost = cost or curves.get(LOOP)
    by_rank = {rank + 1: tokens for rank, tokens in list(parts.by_rank.items())[:MAX_DEPTHS]}
    rows = _by_category([_bars(by_rank, "sibling", COLORS[0])] if by_rank else [],
                        "Tokens earned by a verified row, by its place among its siblings, with 95 % intervals.",
                        "place among its siblings", "tokens a verified row")
    several = len(parts.first_nodes) > 1
    nodes = _by_category([_bars(parts.first_nodes, "kept", "var(--method-ddtree)")] if several else [],
                         "Drafted tokens kept by a round if it verified so many nodes, with 95 % intervals.",
                         "the most probable nodes of the tree", "drafted tokens kept")
    return {
        "figures": {"siblings": siblings_figure(parts), "rows": rows, "nodes": nodes,
                    "trees": trees_figure(parts), "elsewhere": elsewhere_figure(parts, curves)},
        "sentences": sentences(parts), "misfit": reason, "caution": caution(), "rounds": parts.rounds,
        "flags": [asdict(flags) for flags in flags_of_run(parts, cost)] if cost else [],
        "priced": cost.hardware if cost else "",
        "models": list(models()), "devices": list(devices()), "model": model, "device": device}


def _bars(bars: Mapping[Any, Measured], name: str, color: str) -> View:
    values = list(bars.values())
    return {"type": "bar", "x": list(map(str, bars)), "y": [value.value for value in values], "name": name,
            "marker": {"color": color}, "error_y": error_bars(values, QUIET),
            "customdata": [[value.low, value.high, value.count] for value in values],
            "hovertemplate": f"{name}, %{{x}}: %{{y:.2f}} (%{{customdata[0]:.2f}} to %{{customdata[1]:.2f}} of "
                             "%{customdata[2]})<extra></extra>"}


def _by_category(traces: Sequence[View], summary: str, x: str, y: str, **more: Any) -> View | None:
    """A figure over categories; None if there is nothing to draw."""
    return figure(traces, summary, xaxis=axis(x, type="category"), yaxis=axis(y, **{"rangemode": "tozero", **more}),
                  barmode="group") if traces else None


def siblings_figure(parts: Anatomy) -> View | None:
    """How often the drafter's first proposal was right, by depth on the greedy path and after a sibling."""
    after = {1: "after 2nd", 2: "after 3rd", 3: "after 4th+"}
    drafters = [drafter for drafter in parts.drafters if drafter.greedy_path]
    traces = [_bars({**dict(enumerate(drafter.greedy_path[:MAX_DEPTHS], 1)),
                     **{after[rank]: share for rank, share in drafter.after_sibling.items()}}, drafter.name, color)
              for drafter, color in zip(drafters, COLORS, strict=False)]
    return _by_category(traces, "How often the drafter's first proposal was right, with 95 % intervals.",
                        "on the greedy path, by depth; after an accepted sibling", "first proposal right",
                        tickformat=".0%", range=[0, 1])


def trees_figure(parts: Anatomy) -> View | None:
    """Chain, wider chain and trees at the same places, of the drafter with the most of them."""
    if not parts.redrafts:
        return None
    drafter = max(parts.redrafts, key=lambda redraft: redraft.accepted.count).drafter
    of_drafter = sorted((redraft for redraft in parts.redrafts if redraft.drafter == drafter),
                        key=lambda redraft: redraft.budget)
    sizes = {redraft.budget for redraft in of_drafter if redraft.kind == WIDE}
    traces = []
    for kind, (color, dash) in KINDS.items():
        redrafts = [redraft for redraft in of_drafter if redraft.kind == kind and redraft.budget in sizes]
        if redrafts:
            accepted = [redraft.accepted for redraft in redrafts]
            traces.append(curve(
                kind, [str(redraft.budget) for redraft in redrafts], [share.value for share in accepted],
                f"{kind}, %{{x}} nodes: %{{y:.2f}} kept", {"color": color, "dash": dash, "width": 2},
                mode="lines+markers", error_y=error_bars(accepted, QUIET)))
    return _by_category(traces, f"Drafted tokens kept with other trees of {drafter}'s drafts, with 95 % intervals.",
                        "drafted nodes", "drafted tokens kept")


def elsewhere_figure(parts: Anatomy, curves: Mapping[str, CostCurve]) -> View | None:
    """The run's trees on another machine: measured τ over the predicted cost of a round, by node budget."""
    kept = {size: mean.value for size, mean in parts.first_nodes.items()}
    traces = [curve(
        f"{line}, predicted", map(str, kept),
        [(1 + value) * costs.plain_ms / costs.round_ms(size + 1, size, 1) for size, value in kept.items()],
        f"{line}, predicted: %{{x}} nodes, %{{y:.2f}}×", {"color": color, "dash": dash}, mode="lines+markers")
        for (line, costs), (color, dash) in zip(curves.items(), ((QUIET, "dot"), (ACCENT, "dash")), strict=False)]
    return _by_category(traces if kept else [],
                        f"Predicted speed-up of this run's trees by budget, as the {FLOOR} and as the {LOOP}.",
                        "drafted nodes", "× plain decoding, predicted")
