"""What ships with the lab: a recorded sweep with its date and machine; predictions of one method at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.errors import RequestError
from engine.lab.whatif import WhatIf
from explorer.lab.cost import chosen_line, cost_figure, predicted_points, useful_rows
from explorer.lab.recorded import FOLDER, NUMBER, RecordedSweep, pack, shipped
from tests.explorer.lab.test_other_rigs import HERE, lab_of, ship
from tests.explorer.lab.test_sweeps import FORM, lab_at, state, until
from tests.explorer.lab.test_tools import ended, tools


def forecast() -> WhatIf:
    made = tools()
    ended(made, made.what_if({"run": "r"}))
    found = made.forecast("r")
    assert found is not None and found.cost is not None
    return found


@pytest.mark.slow
def test_the_lab_opens_with_it_until_something_is_measured(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "demo rig")
    lab._sweeps.recorded = tuple(shipped(FOLDER))
    progress = lab.progress({})
    assert progress["sweep"] == NUMBER and set(progress["recorded"]) == {"date", "rig", "hardware", "dtype"}
    assert all(progress["recorded"].values())
    answer = lab.curves({})
    assert len(answer["table"]["rows"]) > 10 and answer["seconds_per_run"] is None  # of another machine
    assert lab.shapes({"sweep": NUMBER, "nodes": "16"})["histogram"]
    with pytest.raises(RequestError, match="belongs to the page"):
        lab.delete({"sweep": NUMBER})
    lab.start(FORM)
    until(lambda: state(lab) == "done")
    assert lab.progress({})["sweep"] == 1 and lab.progress({})["recorded"] is None
    assert lab.progress({"sweep": NUMBER})["recorded"]


def test_a_results_file_is_packed_whole(tmp_path: Path) -> None:
    lab = lab_at(tmp_path)
    lab.start(FORM)
    until(lambda: state(lab) == "done")
    pack(tmp_path / "results.sqlite", tmp_path / "packed.gz")
    found = RecordedSweep(tmp_path / "packed.gz")
    assert found.stored.number == NUMBER and found.stored.finished and len(found.measured) == len(found.stored.plan)


@pytest.mark.slow
def test_any_number_of_them_may_ship_and_under_load_shows_one_of_several(tmp_path: Path) -> None:
    ship(tmp_path, "alone", HERE)
    ship(tmp_path, "crowd", HERE, concurrency=[1, 4])
    page = lab_of(tmp_path)
    progress = page.progress({})
    assert progress["sweep"] == NUMBER and [each["number"] for each in progress["sweeps"]] == [NUMBER, NUMBER - 1]
    assert [each["concurrency"] for each in progress["sweeps"]] == [1, 4]
    chosen = page.progress({"sweep": NUMBER - 1})
    assert chosen["sweep"] == NUMBER - 1 and chosen["recorded"]["rig"] == HERE
    assert {row["concurrency"] for row in page.curves({"sweep": NUMBER - 1, "concurrency": 4})["table"]["rows"]} == {4}
    shown = page.concurrency({"sweep": NUMBER})
    assert len(shown["table"]["rows"]) > 1 and shown["recorded"]
    with pytest.raises(RequestError, match="belongs to the page"):
        page.delete({"sweep": NUMBER - 1})


@pytest.mark.slow
def test_predictions_are_of_one_method_and_equal_work_is_equally_fast() -> None:
    found = forecast()
    first = found.of("ddtree")[1]
    twins = tuple(replace(first, budget=budget, predicted_ms=ms) for budget, ms in ((8, 10.0), (32, 14.0), (128, 11.0)))
    changed = replace(found, forecasts=(*twins, *found.of("joint")))
    points = predicted_points(changed, "ddtree")
    assert {point.line for point in points} == {"ddtree"} and len(points) == 3
    assert {point.speed.median for point in points} == {1e3 * first.tokens / 11.0}
    assert chosen_line(changed, "nobody") in ("ddtree", "joint") and chosen_line(None, "ddtree") == ""


@pytest.mark.slow
def test_the_cost_opens_on_the_rows_that_may_pay() -> None:
    curve = forecast().cost
    assert curve is not None
    most = useful_rows(curve, 20)
    layout = cost_figure(curve, 20)["layout"]
    assert most in curve.rows and 84 <= most < curve.rows[-1]
    assert layout["yaxis"]["type"] == "log" and layout["xaxis"]["range"][1] == pytest.approx(np.log2(most), abs=0.2)
