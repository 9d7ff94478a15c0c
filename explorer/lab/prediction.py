"""What a what-if predicts from one run: the curves of its methods, and the cost of a pass against the gain of a node,
which cross at the best budget."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.budget.cost import CostCurve
from engine.decoding.methods import METHODS
from engine.lab.replay import Forecast, Gain, WhatIf
from engine.lab.settings import Setting
from engine.lab.statistics import estimate
from explorer.lab.curves import CurvePoint
from explorer.lab.style import ACCENT, INK, QUIET, axis, curve, drafts, figure, look
from explorer.view import View


def predicted_curves(what_if: WhatIf | None, line: str, plain: float = 0.0,
                     withheld: str = "") -> tuple[View, list[CurvePoint]]:
    """{lines, line, withheld}: the curves that a what-if predicts, one for each method and split; the one that is
    drawn, ``line`` if there is one, else that of the setting which is predicted to be fastest; and why its speed is
    not drawn, empty if it is. With the points of that one. None of all that without a what-if that has a cost.

    Speeds are predicted as multiples of ``plain``, plain decoding's tokens/s in the figure, if it has any. ``withheld``
    is why no speed-up is said of the run, and so none is predicted from it.
    """
    if what_if is None:
        return {"lines": [], "line": "", "withheld": ""}, []
    lines: dict[str, list[CurvePoint]] = defaultdict(list)
    for point in _points(what_if, plain, withheld or what_if.withheld):
        if drafts(point.setting):
            lines[point.line].append(point)
    fastest = {name: max((point.speed.median for point in points if point.speed), default=0.0)
               for name, points in lines.items()}
    shown = line if line in lines else max(fastest, key=fastest.__getitem__, default="")
    return {"lines": list(lines), "line": shown, "withheld": withheld or what_if.withheld}, lines[shown]


def _points(what_if: WhatIf, plain: float, withheld: str) -> list[CurvePoint]:
    """Where a method does the same rounds at several budgets, the median of their times counts, since what differs is
    the noise of the measured cost alone."""
    forecasts = [forecast for forecast in what_if.forecasts if forecast.predicted_ms]
    milliseconds: dict[Forecast, list[float]] = defaultdict(list)
    for forecast in forecasts:
        milliseconds[_work(forecast)].append(forecast.predicted_ms)
    factor = plain * what_if.cost.plain_ms / 1e3 if what_if.cost and plain else 1.0
    points = []
    for forecast in forecasts:
        setting = Setting(forecast.method, forecast.budget, forecast.split, pace=forecast.pace,
                          temperature=what_if.sampling.temperature)
        speed = factor * 1e3 * forecast.tokens / median(milliseconds[_work(forecast)])
        points.append(CurvePoint(setting, estimate([forecast.tau]), None if withheld else estimate([speed]), "texts"))
    return points


def _work(forecast: Forecast) -> Forecast:
    """What identifies the work of a forecast, apart from how it was asked for and how long it took."""
    return replace(forecast, budget=0, build_ms=0.0, predicted_ms=0.0)


Reals = NDArray[np.float64]
LOWEST, FOOT = -4, -3.9  # powers of ten: where the axis of tokens begins, and where what it cannot show is marked
BINS_PER_OCTAVE = 2  # in which realised gains and costs of single nodes are averaged


def cost_view(what_if: WhatIf, costs: CostCurve, line: str) -> View:
    """{"cost", "gain": figures, "lines", "line": whose gain it is, "withheld", "about": how the cost was measured}."""
    gains = {gain.method if gain.split == "total" else f"{gain.method} {gain.split}": gain for gain in what_if.gains}
    usual = next((name for name, gain in gains.items() if what_if.best
                  and (gain.method, gain.split) == (what_if.best.method, what_if.best.split)), next(iter(gains)))
    line = line if line in gains else usual
    gain = gains[line]
    best = 0 if what_if.withheld else priced(what_if, gain, np.asarray(gain.realised))[1]
    return {"cost": cost_figure(costs, best), "gain": gain_figure(what_if, gain), "lines": list(gains), "line": line,
            "withheld": what_if.withheld,
            "about": f"Measured on {costs.hardware} in {costs.dtype} after {costs.context} tokens, {costs.sampling}, "
                     f"medians of {costs.repeats}."}


def cost_figure(costs: CostCurve, best: int = 0) -> View:
    """Milliseconds against rows, both logarithmic: a pass with the range of eight in ten, a draft, and a round without
    a drafter. In view are the rows that may pay, up to some times ``best``, the budget that is predicted to be fastest;
    the others are there for who zooms out."""
    x, rows, most = _logarithms(costs.rows), [[row] for row in costs.rows], useful_rows(costs, best)
    ticks = np.unique(np.floor(x), return_index=True)[1].tolist()  # one in each octave
    band = {"type": "scatter", "x": [*x, *reversed(x)], "y": [*costs.verify_high_ms, *reversed(costs.verify_low_ms)],
            "fill": "toself", "mode": "none", "fillcolor": "var(--cost-band)", "name": "eight passes in ten",
            "hoverinfo": "skip"}
    return figure(
        [band,
         curve("one pass of the target", x, costs.verify_ms, "%{customdata[0]} rows: %{y:.2f} ms a pass",
               {"color": INK, "width": 2.2}, mode="lines+markers", marker={"size": 6}, customdata=rows),
         curve("one drafter's draft", x, _above_zero(costs.draft_ms), "a draft for %{customdata[0]} rows: %{y:.2f} ms",
               {"color": "var(--drafter1)", "width": 1.6, "dash": "dash"}, customdata=rows),
         curve("a round of plain decoding", [x[0], x[-1]], [costs.plain_ms] * 2, "plain decoding: %{y:.2f} ms a token",
               {"color": "var(--method-plain)", "width": 1.4, "dash": "dot"})],
        f"A pass over one row takes {costs.verify_ms[0]:.2f} milliseconds, over {costs.rows[-1]} rows "
        f"{costs.verify_ms[-1]:.2f}.",
        xaxis=axis("rows of the pass, log₂", range=[-0.15, float(np.log2(most)) + 0.15],
                   tickvals=[x[place] for place in ticks], ticktext=[str(costs.rows[place]) for place in ticks]),
        yaxis=axis("milliseconds, log₁₀", type="log", range=_span(costs, most), exponentformat="none", dtick="D2"))


def useful_rows(costs: CostCurve, best: int) -> int:
    """The measured number of rows up to which the figure opens: the first beyond four times the best budget, 64 at
    least."""
    return next((rows for rows in costs.rows if rows >= max(64, 4 * (best + 1))), costs.rows[-1])


def _span(costs: CostCurve, most: int) -> list[float]:
    """The powers of ten from the cheapest to the dearest milliseconds up to that many rows."""
    shown = np.asarray(costs.rows) <= most
    values = np.concatenate([np.asarray(line)[shown] for line in (
        costs.verify_low_ms, costs.verify_high_ms, costs.draft_ms)])
    low, high = np.log10([min([*values[values > 0], costs.plain_ms]), max([*values, costs.plain_ms])])
    return [float(low) - 0.08, float(high) + 0.08]


def gain_figure(what_if: WhatIf, gain: Gain) -> View:
    """Tokens that the n-th node adds to a round, against what its row costs, in tokens of the best rate.

    A node pays while its gain lies above its cost. The cost of the n-th row is its milliseconds times the tokens
    per millisecond of the best budget: Dinkelbach's price of a ratio, so that the lines cross at the best budget.
    Where the cost curve is not to be trusted, the gains stand alone.
    """
    expected, realised, seen = np.asarray(gain.expected), np.asarray(gain.realised), look(gain.method)
    nodes, (centres, means) = np.arange(1, len(expected) + 1), binned(realised)
    traces = [
        _nodes_curve(nodes, expected, "the drafter's belief, q", "var(--drafter1)", "dash"),
        curve("how often it was kept", _logarithms(centres), _above_zero(means),
              "around node %{customdata[0]}: kept in %{y:.2%} of the rounds", {"color": seen.color, "width": 2.2},
              mode="lines+markers", marker={"symbol": seen.symbol, "size": 7}, customdata=_rounded(centres))]
    never = centres[means == 0]
    if len(never):  # no place on a logarithmic axis: marked at its foot
        traces.append(curve(
            "never kept", _logarithms(never), [10**FOOT] * len(never),
            "around node %{customdata[0]}: kept in no round", {}, mode="markers", customdata=_rounded(never),
            marker={"symbol": "triangle-down-open", "size": 8, "color": seen.color}))
    octaves = range(int(np.log2(max(len(nodes), 1))) + 1)
    axes = {"xaxis": axis("n-th best drafted node, log₂", tickvals=list(octaves),
                          ticktext=[str(2**octave) for octave in octaves]),
            "yaxis": axis("tokens per round", type="log", range=[LOWEST, 0.1], exponentformat="none", dtick=1)}
    if what_if.withheld:
        return figure(traces, f"The gain of a further node for {gain.method}, without its cost. {what_if.withheld}",
                      **axes)
    prices, best = priced(what_if, gain, realised)
    x = float(np.log2(max(best, 1)))
    return figure(
        [*traces, _nodes_curve(*binned(prices), "what its row costs", QUIET, "solid")],
        f"For {gain.method} the gain of a further node falls below the cost of its row at about {best} nodes, "
        "predicted from this text.", **axes,
        shapes=[{"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper",
                 "line": {"color": ACCENT, "width": 1.5, "dash": "dot"}}],
        annotations=[{"x": x, "y": 0.98, "yref": "paper", "yanchor": "top", "xanchor": "left", "showarrow": False,
                      "text": f" best: {best} nodes, predicted", "font": {"color": ACCENT, "size": 12}}])


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
    edges = edges[edges <= len(values)]
    ends = np.append(edges[1:] - 1, len(values))
    return np.sqrt(edges * ends), np.add.reduceat(values, edges - 1) / (ends - edges + 1)


def _logarithms(values: Sequence[int] | Reals) -> list[float]:
    return [float(value) for value in np.log2(values)]


def _rounded(nodes: NDArray[Any]) -> list[list[int]]:
    return [[round(float(node))] for node in nodes]


def _above_zero(values: Sequence[float] | Reals) -> list[float | None]:
    """For a logarithmic axis: a gap if there is nothing."""
    return [None if value <= 0 else float(value) for value in values]


def _nodes_curve(nodes: NDArray[Any], values: Reals, name: str, color: str, dash: str) -> View:
    return curve(name, _logarithms(nodes), _above_zero(values), f"node %{{customdata[0]}}, {name}: %{{y:.3g}} tokens",
                 {"color": color, "width": 1.6, "dash": dash}, customdata=_rounded(nodes))
