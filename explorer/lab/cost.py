"""The cost of a pass against the gain of a node: the best budget is where the two cross."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from engine.budget.cost import CostCurve
from engine.decoding.methods import METHODS
from engine.lab.settings import Setting
from engine.lab.statistics import Estimate
from engine.lab.whatif import Forecast, Gain, WhatIf
from explorer.lab.curves import CurvePoint
from explorer.lab.style import ACCENT, INK, QUIET, axis, drawn, look, paper
from explorer.view import View


def predicted_points(what_if: WhatIf | None, line: str = "") -> list[CurvePoint]:
    """The points of the curve of that name, or of the fastest one where no curve has it; none without a cost."""
    return _lines(what_if).get(chosen_line(what_if, line), [])


def predicted_view(what_if: WhatIf | None, line: str) -> View:
    """{lines, line, withheld}: the curves that there are predictions of, the one that is drawn, and why its speed is
    not, empty where it is."""
    return {"lines": list(_lines(what_if)), "line": chosen_line(what_if, line),
            "withheld": what_if.withheld if what_if else ""}


def chosen_line(what_if: WhatIf | None, line: str) -> str:
    """The curve asked for, else that of the setting which is predicted to be fastest, the first where that may not be
    said; empty without any."""
    lines = _lines(what_if)
    if line in lines or not lines:
        return line if line in lines else ""
    if what_if and what_if.withheld:
        return next(iter(lines))
    return max(lines, key=lambda name: max(point.speed.median for point in lines[name]))


def _lines(what_if: WhatIf | None) -> dict[str, list[CurvePoint]]:
    lines: dict[str, list[CurvePoint]] = defaultdict(list)
    for point in _points(what_if) if what_if else []:
        if point.drafts:
            lines[point.line].append(point)
    return dict(lines)


def _points(what_if: WhatIf) -> Iterable[CurvePoint]:
    milliseconds = _steady([forecast for forecast in what_if.forecasts if forecast.predicted_ms])
    for forecast, spent in milliseconds:
        setting = Setting(forecast.method, forecast.budget, forecast.split, temperature=what_if.sampling.temperature,
                          pace=forecast.pace)
        yield CurvePoint(setting, _exactly(forecast.tau), _exactly(1e3 * forecast.tokens / spent), "texts")


def _steady(forecasts: list[Forecast]) -> list[tuple[Forecast, float]]:
    """Each forecast with its milliseconds: where a method does the same rounds at several budgets, their median, since
    what differs is the noise of the measured cost alone."""
    same: dict[object, list[float]] = defaultdict(list)
    for forecast in forecasts:
        same[_work(forecast)].append(forecast.predicted_ms)
    return [(forecast, median(same[_work(forecast)])) for forecast in forecasts]


def _work(forecast: Forecast) -> Forecast:
    """What identifies the work of a forecast, apart from how it was asked for and how long it took."""
    return replace(forecast, budget=0, build_ms=0.0, predicted_ms=0.0)


def _exactly(value: float) -> Estimate:
    return Estimate(value, None, None, value, value, 1)


Reals = NDArray[np.float64]
LOWEST, FOOT = -4, -3.9  # powers of ten: where the axis of tokens begins, and where what it cannot show is marked
BINS_PER_OCTAVE = 2  # in which realised gains and costs of single nodes are averaged


def cost_figure(curve: CostCurve, best: int = 0) -> dict[str, Any]:
    """Milliseconds against rows, both logarithmic: a pass with the range of eight in ten, a draft, and a round without
    a drafter. In view are the rows that may pay, up to some times ``best``, the budget that is predicted to be fastest;
    the others are there for who zooms out."""
    ticks = {"tickvals": _logarithms(curve.rows), "ticktext": [str(row) for row in curve.rows]}
    most = useful_rows(curve, best)
    figure = paper(
        xaxis=axis("rows of the pass, log₂", range=[-0.15, float(np.log2(most)) + 0.15], **_sparse(ticks)),
        yaxis=axis("milliseconds, log₁₀", type="log", range=_span(curve, most), exponentformat="none", dtick="D2"))
    x = _logarithms(curve.rows)
    figure.add_trace(go.Scatter(
        x=[*x, *reversed(x)], y=[*curve.verify_high_ms, *reversed(curve.verify_low_ms)], fill="toself", mode="none",
        fillcolor="var(--cost-band)", name="eight passes in ten", hoverinfo="skip"))
    figure.add_trace(go.Scatter(
        x=x, y=list(curve.verify_ms), mode="lines+markers", name="one pass of the target",
        customdata=_column(curve.rows), line={"color": INK, "width": 2.2}, marker={"size": 6},
        hovertemplate="%{customdata[0]} rows: %{y:.2f} ms a pass<extra></extra>"))
    figure.add_trace(go.Scatter(
        x=x, y=_above_zero(np.asarray(curve.draft_ms)), mode="lines", name="one drafter's draft",
        customdata=_column(curve.rows), line={"color": "var(--drafter1)", "width": 1.6, "dash": "dash"},
        hovertemplate="a draft for %{customdata[0]} rows: %{y:.2f} ms<extra></extra>"))
    figure.add_trace(go.Scatter(
        x=[x[0], x[-1]], y=[curve.plain_ms] * 2, mode="lines", name="a round of plain decoding",
        line={"color": "var(--method-plain)", "width": 1.4, "dash": "dot"},
        hovertemplate="plain decoding: %{y:.2f} ms a token<extra></extra>"))
    last = len(curve.rows) - 1
    return drawn(figure, f"A pass over one row takes {curve.verify_ms[0]:.2f} milliseconds, over {curve.rows[last]} "
                         f"rows {curve.verify_ms[last]:.2f}.")


def useful_rows(curve: CostCurve, best: int) -> int:
    """The measured number of rows up to which the figure opens: the first beyond four times the best budget, 64 at
    least."""
    return next((rows for rows in curve.rows if rows >= max(64, 4 * (best + 1))), curve.rows[-1])


def _span(curve: CostCurve, most: int) -> list[float]:
    """The powers of ten from the cheapest to the dearest milliseconds up to that many rows."""
    shown = [place for place, rows in enumerate(curve.rows) if rows <= most]
    values = [value for line in (curve.verify_low_ms, curve.verify_high_ms, curve.draft_ms) for place in shown
              if (value := line[place]) > 0]
    low, high = min([*values, curve.plain_ms]), max([*values, curve.plain_ms])
    return [float(np.log10(low)) - 0.08, float(np.log10(high)) + 0.08]


def _logarithms(values: Sequence[int]) -> list[float]:
    return [float(value) for value in np.log2(values)]


def _column(values: Sequence[int]) -> list[list[int]]:
    return [[value] for value in values]


def _sparse(ticks: dict[str, Any]) -> dict[str, Any]:
    """Ticks that are at least an octave apart."""
    kept: list[int] = []
    for place, value in enumerate(ticks["tickvals"]):
        if not kept or value - ticks["tickvals"][kept[-1]] >= 0.8:
            kept.append(place)
    return {name: [values[place] for place in kept] for name, values in ticks.items()}


def gain_figure(what_if: WhatIf, gain: Gain) -> dict[str, Any]:
    """Tokens that the n-th node adds to a round, against what its row costs, in tokens of the best rate.

    A node pays while its gain lies above its cost. The cost of the n-th row is its milliseconds times the tokens
    per millisecond of the best budget: Dinkelbach's price of a ratio, so that the lines cross at the best budget.
    Where the cost curve is not to be trusted, the gains stand alone.
    """
    expected, realised = np.asarray(gain.expected), np.asarray(gain.realised)
    nodes = np.arange(1, len(expected) + 1)
    prices, best = priced(what_if, gain, realised)
    figure = paper(
        xaxis=axis("n-th best drafted node, log₂", **_octaves(len(nodes))),
        yaxis=axis("tokens per round", type="log", range=[LOWEST, 0.1], exponentformat="none", dtick=1))
    figure.add_trace(_line(nodes, expected, "the drafter's belief, q", "var(--drafter1)", "dash"))
    centres, means = binned(realised)
    figure.add_trace(go.Scatter(
        x=list(np.log2(centres)), y=_above_zero(means), mode="lines+markers", name="how often it was kept",
        line={"color": look(gain.method).color, "width": 2.2},
        marker={"symbol": look(gain.method).symbol, "size": 7}, customdata=[[round(centre)] for centre in centres],
        hovertemplate="around node %{customdata[0]}: kept in %{y:.2%} of the rounds<extra></extra>"))
    never = [float(centre) for centre, mean in zip(centres, means, strict=True) if mean == 0]
    if never:  # no place on a logarithmic axis: marked at its foot
        figure.add_trace(go.Scatter(
            x=list(np.log2(never)), y=[10 ** FOOT] * len(never), mode="markers", name="never kept",
            marker={"symbol": "triangle-down-open", "size": 8, "color": look(gain.method).color},
            customdata=[[round(centre)] for centre in never],
            hovertemplate="around node %{customdata[0]}: kept in no round<extra></extra>"))
    if what_if.withheld:
        return drawn(figure, f"The gain of a further node for {gain.method}, without its cost. {what_if.withheld}")
    figure.add_trace(_line(*binned(prices), "what its row costs", QUIET, "solid"))
    figure.add_vline(x=float(np.log2(max(best, 1))), line={"color": ACCENT, "width": 1.5, "dash": "dot"})
    figure.add_annotation(
        x=float(np.log2(max(best, 1))), y=0.98, yref="paper", yanchor="top", xanchor="left", showarrow=False,
        text=f" best: {best} nodes, predicted", font={"color": ACCENT, "size": 12})
    return drawn(figure, f"For {gain.method} the gain of a further node falls below the cost of its row at about "
                         f"{best} nodes, predicted from this text.")


def priced(what_if: WhatIf, gain: Gain, gains: Reals) -> tuple[Reals, int]:
    """What each row costs, in tokens (n,), and the number of nodes with the most tokens per millisecond."""
    assert what_if.cost is not None
    drafters, nodes = METHODS[gain.method].drafter_count, len(gains)
    builds = [forecast.build_ms for forecast in what_if.of(gain.method, gain.split)]
    spent = np.asarray([what_if.cost.round_ms(n + 1, n, drafters, max(builds, default=0.0)) for n in range(nodes + 1)])
    tokens = 1 + np.concatenate([np.zeros(1), np.cumsum(gains)])
    rates = tokens / spent
    return np.diff(spent) * rates.max(), int(rates.argmax())


def binned(values: Reals) -> tuple[Reals, Reals]:
    """Means of the single nodes' values over stretches of like size on the logarithmic axis: centres and means."""
    edges = np.unique(np.round(2 ** np.arange(0, np.log2(len(values) + 1), 1 / BINS_PER_OCTAVE)).astype(int))
    edges = np.append(edges, len(values) + 1)
    pairs = list(zip(edges, edges[1:], strict=False))
    return (np.asarray([np.sqrt(low * (high - 1)) for low, high in pairs]),
            np.asarray([values[low - 1:high - 1].mean() for low, high in pairs]))


def _above_zero(values: Reals) -> list[float | None]:
    """For a logarithmic axis: a gap where there is nothing."""
    return [None if value <= 0 else float(value) for value in values]


def _octaves(most: int) -> dict[str, Any]:
    powers = range(int(np.log2(max(most, 1))) + 1)
    return {"tickvals": list(powers), "ticktext": [str(2**power) for power in powers]}


def _line(nodes: NDArray[Any], values: Reals, name: str, color: str, dash: str) -> go.Scatter:
    return go.Scatter(
        x=list(np.log2(nodes)), y=_above_zero(values), mode="lines", name=name,
        line={"color": color, "width": 1.6, "dash": dash}, customdata=[[round(node)] for node in nodes],
        hovertemplate=f"node %{{customdata[0]}}, {name}: %{{y:.3g}} tokens<extra></extra>")
