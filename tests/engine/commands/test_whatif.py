"""What ``whatif`` prints of a forecast."""

from __future__ import annotations

from dataclasses import replace

from engine.commands.whatif import encoded, table
from engine.lab.whatif import Forecast, WhatIf
from engine.records import Sampling
from tests.engine.lab.scripted import CURVE


def test_speeds_are_printed_only_where_the_cost_curve_has_an_order() -> None:
    forecast = Forecast("ddtree", "total", 8, (3,), (9,), predicted_ms=12.0)
    sound = WhatIf("", "rig", "machine", "float32", Sampling(), 1, 3, 0, (forecast,), (), CURVE, 0.0)
    passes = (9.0, *CURVE.verify_ms[1:])
    doubtful = replace(sound, cost=replace(CURVE, verify_ms=passes, verify_low_ms=passes, verify_high_ms=passes))
    assert "Fastest, predicted: ddtree total at budget 8." in table(sound) and "250" in table(sound)
    assert sound.best is forecast and not sound.withheld and doubtful.best is None
    assert doubtful.withheld in table(doubtful) and encoded(doubtful)["withheld"] == doubtful.withheld
    assert "Fastest, predicted" not in table(doubtful) and "250" not in table(doubtful)
