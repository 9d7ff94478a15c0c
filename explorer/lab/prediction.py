"""What is predicted from one run: other budgets, the cost of a pass against the gain of a node, and other machines."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from engine.budget.cost import CostCurve
from engine.decoding.methods import METHODS
from engine.lab.anatomy import Anatomy, anatomy
from engine.lab.flags import READ_IN, Flags, flags_of_run
from engine.lab.machines import (
    ESTIMATES,
    FLOOR,
    LOOP,
    PUBLISHED_DEVICE,
    devices,
    error_note,
    machine_curve,
    models,
    too_large_reason,
)
from engine.lab.replay import Forecast, Gain, WhatIf
from engine.lab.statistics import estimate
from engine.trace import Trace
from explorer.lab.curves import CurvePoint
from explorer.lab.style import ACCENT, INK, QUIET, Figure, Part, axis, curve, figure, log_axis, style_of

Reals = NDArray[np.float64]


class PredictedLines(TypedDict):
    """``lines``: the curves that a what-if predicts. ``line``: the drawn one. ``withheld``: why its speed is not
    predicted."""

    lines: list[str]
    line: str
    withheld: str


def predicted_curves(what_if: WhatIf | None, line: str, plain: float = 0.0,
                     withheld: str = "") -> tuple[PredictedLines, list[CurvePoint]]:
    """Return a what-if's curves, with the points of ``line``, or else of the fastest one; none without a what-if.
    ``plain``: plain decoding's tokens/s in the figure, to which speeds are scaled, or 0. ``withheld``: why the run has
    no speed-up; then none is predicted from it."""
    if what_if is None:
        return {"lines": [], "line": "", "withheld": ""}, []
    withheld = withheld or what_if.withheld
    forecasts = [forecast for forecast in what_if.forecasts if forecast.predicted_ms]
    # equal rounds at several budgets differ only by measurement noise, so their median counts
    milliseconds: dict[Forecast, list[float]] = defaultdict(list)
    for forecast in forecasts:
        milliseconds[_work(forecast)].append(forecast.predicted_ms)
    factor = plain * what_if.cost.plain_ms / 1e3 if what_if.cost and plain else 1.0
    lines: dict[str, list[CurvePoint]] = defaultdict(list)
    for forecast in forecasts:
        setting = forecast.setting
        speed = factor * 1e3 * forecast.tokens / median(milliseconds[_work(forecast)])
        if setting.drafts:
            lines[setting.curve_label].append(CurvePoint(
                setting, estimate([forecast.tau]), None if withheld else estimate([speed]), True))
    fastest = {name: max((point.speed.median for point in points if point.speed), default=0.0)
               for name, points in lines.items()}
    selected = line if line in lines else max(fastest, key=fastest.__getitem__, default="")
    return {"lines": list(lines), "line": selected, "withheld": withheld}, lines[selected]


def _work(forecast: Forecast) -> Forecast:
    """Return the forecast without its budget and times, so that equal work compares equal."""
    return replace(forecast, setting=replace(forecast.setting, budget=0), build_ms=0.0, predicted_ms=0.0)


MIN_GAIN = 1e-4  # tokens per round at the foot of the axis, where never kept nodes are drawn
MIN_DRAWN_ROWS = 64  # the cost is drawn up to this size at least


class CostView(TypedDict):
    """What a pass costs and what a node gains, and how the cost was measured."""

    cost: Figure
    gain: Figure | None
    about: str


def cost_view(what_if: WhatIf | None, line: str) -> CostView | None:
    """Return figures of a what-if's measured cost and of a node's gain on the curve ``line``; None without a cost."""
    if what_if is None or what_if.cost is None:
        return None
    costs = what_if.cost
    gain = next((gain for gain in what_if.gains if gain.setting.curve_label == line), None)
    best = node_costs(what_if, gain, np.asarray(gain.realised))[1] if gain and not what_if.withheld else 0
    return {"cost": cost_figure(costs, best), "gain": gain_figure(what_if, gain) if gain else None,
            "about": f"Measured on {costs.hardware} in {costs.dtype} after {costs.context} tokens, {costs.sampling}, "
                     f"medians of {costs.repeats}."}


def cost_figure(costs: CostCurve, best: int = 0) -> Figure:
    """Plot milliseconds against rows, both logarithmic: a pass with its 80 % interval, a draft, and a round without a
    drafter. The view ends at a multiple of ``best``, the predicted fastest budget; zooming out shows the rest."""
    rows = list(costs.rows)
    max_rows = next((size for size in rows if size >= max(MIN_DRAWN_ROWS, 4 * (best + 1))), rows[-1])
    visible = np.asarray(rows) <= max_rows
    visible_ms = np.concatenate([np.asarray(line)[visible] for line in (
        costs.verify_low_ms, costs.verify_high_ms, costs.draft_ms)])
    band = {"type": "scatter", "x": [*rows, *reversed(rows)],
            "y": [*costs.verify_high_ms, *reversed(costs.verify_low_ms)], "fill": "toself", "mode": "none",
            "fillcolor": "var(--cost-band)", "name": "eight passes in ten", "hoverinfo": "skip"}
    return figure(
        [band,
         curve("one pass of the target", rows, costs.verify_ms, "%{x} rows: %{y:.2f} ms a pass",
               {"color": INK, "width": 2.2}, mode="lines+markers", marker={"size": 6}),
         curve("one drafter's draft", rows, [ms or None for ms in costs.draft_ms],
               "a draft for %{x} rows: %{y:.2f} ms", {"color": "var(--drafter1)", "width": 1.6, "dash": "dash"}),
         curve("a round of plain decoding", [rows[0], rows[-1]], [costs.plain_ms] * 2,
               "plain decoding: %{y:.2f} ms a token", {"color": "var(--method-plain)", "width": 1.4, "dash": "dot"})],
        f"A pass over one row takes {costs.verify_ms[0]:.2f} milliseconds, over {rows[-1]} rows "
        f"{costs.verify_ms[-1]:.2f}.",
        xaxis=log_axis("rows of the pass", 0.9, 1.1 * max_rows),
        yaxis=log_axis("milliseconds", 0.8 * min([*visible_ms[visible_ms > 0], costs.plain_ms]),
                       1.2 * max([*visible_ms, costs.plain_ms])))


def gain_figure(what_if: WhatIf, gain: Gain) -> Figure:
    """Plot the tokens that the n-th node adds to a round against the cost of its row, in tokens of the best rate.

    A node pays while its gain lies above its cost. The cost of the n-th row is its milliseconds times the tokens
    per millisecond of the best budget: Dinkelbach's price of a ratio, so that the lines cross at the best budget.
    If the cost curve is not to be trusted, the gains stand alone.
    """
    expected, realised, look = np.asarray(gain.expected), np.asarray(gain.realised), style_of(gain.setting.method)
    nodes = np.arange(1.0, len(expected) + 1)
    traces = [
        _gain_curve(nodes, expected, "the drafter's belief, q", {"color": "var(--drafter1)", "width": 1.6,
                                                                "dash": "dash"}),
        _gain_curve(*binned(realised), "how often it was kept", {"color": look.color, "width": 2.2},
                    mode="lines+markers", marker={"symbol": look.symbol, "size": 7})]
    axes = {"xaxis": log_axis("n-th best drafted node", 0.9, 1.1 * max(2, len(nodes))),
            "yaxis": axis("tokens per round", type="log", range=[float(np.log10(MIN_GAIN)), 0.1],
                          exponentformat="none", dtick=1)}
    if what_if.withheld:
        return figure(traces, f"The gain of a further node for {gain.setting.method}, without its cost. "
                              f"{what_if.withheld}", **axes)
    costs, best = node_costs(what_if, gain, realised)
    x = max(best, 1)
    return figure(
        [*traces, _gain_curve(*binned(costs), "what its row costs", {"color": QUIET, "width": 1.6})],
        f"For {gain.setting.method} the gain of a further node falls below the cost of its row at about {best} nodes, "
        "predicted from this text.", **axes,
        shapes=[{"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper",
                 "line": {"color": ACCENT, "width": 1.5, "dash": "dot"}}],
        annotations=[{"x": float(np.log10(x)), "y": 0.98, "yref": "paper", "yanchor": "top", "xanchor": "left",
                      "showarrow": False, "text": f" best: {best} nodes, predicted",
                      "font": {"color": ACCENT, "size": 12}}])


def node_costs(what_if: WhatIf, gain: Gain, gains: Reals) -> tuple[Reals, int]:
    """Return each row's cost in tokens (n,), and the number of nodes with the most tokens per millisecond."""
    assert what_if.cost is not None
    drafters, nodes = METHODS[gain.setting.method].drafter_count, len(gains)
    builds = [forecast.build_ms for forecast in what_if.forecasts_for(gain.setting.curve)]
    spent = np.asarray([what_if.cost.round_ms(n + 1, n, drafters, max(builds, default=0.0)) for n in range(nodes + 1)])
    tokens = 1 + np.concatenate([np.zeros(1), np.cumsum(gains)])
    rates = tokens / spent
    return np.diff(spent) * rates.max(), int(rates.argmax())


def binned(values: Reals) -> tuple[Reals, Reals]:
    """Average values over half octaves of nodes; return centres and means."""
    edges = np.unique(np.round(2 ** np.arange(0, np.log2(len(values) + 1), 0.5)).astype(int))
    edges = edges[edges <= len(values)]
    ends = np.append(edges[1:] - 1, len(values))
    return np.sqrt(edges * ends), np.add.reduceat(values, edges - 1) / (ends - edges + 1)


def _gain_curve(nodes: Reals, values: Reals, name: str, line: Part, **more: Any) -> Part:
    """Draw a curve over nodes. Zeros lie at the foot of the logarithmic axis."""
    return curve(name, nodes.tolist(), np.maximum(values, MIN_GAIN).tolist(),
                 f"node %{{x:.0f}}, {name}: %{{customdata[0]:.3~g}} tokens", line,
                 customdata=[[value] for value in values.tolist()], **more)


class MachinePrediction(TypedDict):
    """A run predicted on another machine. ``elsewhere``: its speed-up by budget, None if ``too_large`` says why not.
    ``flags``: flags to paste, computed from the cost curve of the hardware ``cost_on``. ``read_in``: the engine
    versions that have these flags. ``caution``: the error of past predictions. ``models``, ``devices``: the choices."""

    elsewhere: Figure | None
    too_large: str
    flags: list[Flags]
    cost_on: str
    read_in: str
    caution: str
    models: list[str]
    devices: list[str]
    model: str
    device: str


def machine_prediction(trace: Trace, cost: CostCurve | None, model: str, device: str) -> MachinePrediction:
    """Predict a run on another machine. ``cost`` is the loaded rig's; if it was not measured or is out of order, the
    flags rest on the other machine's."""
    parts = anatomy([trace])
    model = model if model in models() else next(iter(models()))
    device = device if device in devices() else PUBLISHED_DEVICE
    reason = too_large_reason(model, device)
    curves = {} if reason else {line: machine_curve(model, device, line) for line in ESTIMATES}
    cost = cost if cost and not cost.unusable_reason else curves.get(LOOP)
    return {
        "elsewhere": machine_figure(parts, curves), "too_large": reason, "caution": error_note(),
        "flags": flags_of_run(parts, cost) if cost else [],
        "cost_on": cost.hardware if cost else "", "read_in": READ_IN, "models": list(models()),
        "devices": list(devices()), "model": model, "device": device}


def machine_figure(parts: Anatomy, curves: Mapping[str, CostCurve]) -> Figure | None:
    """Plot the run's trees on another machine: measured τ over the predicted cost of a round, by node budget."""
    accepted = {size: mean.value for size, mean in parts.first_nodes.items()}
    if not accepted or not curves:
        return None
    traces = [curve(
        f"{line}, predicted", list(accepted),
        [(1 + value) * costs.plain_ms / costs.round_ms(size + 1, size, 1) for size, value in accepted.items()],
        f"{line}, predicted: %{{x}} nodes, %{{y:.2f}}×", {"color": color, "dash": dash}, mode="lines+markers")
        for (line, costs), (color, dash) in zip(curves.items(), ((QUIET, "dot"), (ACCENT, "dash")), strict=True)]
    return figure(traces, f"Predicted speed-up of this run's trees by budget, as the {FLOOR} and as the {LOOP}.",
                  xaxis=axis("drafted nodes", type="log", tickvals=list(accepted)),
                  yaxis=axis("× plain decoding, predicted", rangemode="tozero"))
