"""A what-if's forecasts as points of the curves: one method at a time, equal work at equal speed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from engine.lab.settings import Setting
from engine.lab.statistics import Estimate
from engine.lab.whatif import Forecast, WhatIf
from explorer.lab.curve_points import CurvePoint
from explorer.view import View


def predicted_points(found: WhatIf | None, line: str = "") -> list[CurvePoint]:
    """The points of the curve of that name, or of the fastest one where no curve has it; none without a cost."""
    return _lines(found).get(chosen_line(found, line), [])


def predicted_view(found: WhatIf | None, line: str) -> View:
    """{lines, line, withheld}: the curves that there are predictions of, the one that is drawn, and why its speed is
    not, empty where it is."""
    return {"lines": list(_lines(found)), "line": chosen_line(found, line), "withheld": found.withheld if found else ""}


def chosen_line(found: WhatIf | None, line: str) -> str:
    """The curve asked for, else that of the setting which is predicted to be fastest, the first where that may not be
    said; empty without any."""
    lines = _lines(found)
    if line in lines or not lines:
        return line if line in lines else ""
    if found and found.withheld:
        return next(iter(lines))
    return max(lines, key=lambda name: max(point.speed.median for point in lines[name]))


def _lines(found: WhatIf | None) -> dict[str, list[CurvePoint]]:
    lines: dict[str, list[CurvePoint]] = defaultdict(list)
    for point in _points(found) if found else []:
        if point.drafts:
            lines[point.line].append(point)
    return dict(lines)


def _points(found: WhatIf) -> Iterable[CurvePoint]:
    milliseconds = _steady([each for each in found.forecasts if each.predicted_ms])
    for each, spent in milliseconds:
        setting = Setting(each.method, each.budget, each.split, temperature=found.sampling.temperature, pace=each.pace)
        yield CurvePoint(setting, _exactly(each.tau), _exactly(1e3 * each.tokens / spent), "texts")


def _steady(forecasts: list[Forecast]) -> list[tuple[Forecast, float]]:
    """Each forecast with its milliseconds: where a method does the same rounds at several budgets, their median, since
    what differs is the noise of the measured cost alone."""
    same: dict[object, list[float]] = defaultdict(list)
    for each in forecasts:
        same[_work(each)].append(each.predicted_ms)
    return [(each, median(same[_work(each)])) for each in forecasts]


def _work(each: Forecast) -> Forecast:
    """What identifies the work of a forecast, apart from how it was asked for and how long it took."""
    return replace(each, budget=0, build_ms=0.0, predicted_ms=0.0)


def _exactly(value: float) -> Estimate:
    return Estimate(value, None, None, value, value, 1)

