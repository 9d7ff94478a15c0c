"""Several requests at once on the page: the slider, the heat map, what is predicted, the report."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.lab.settings import Setting
from engine.lab.summary import Summary
from explorer.lab.concurrency import grid_of, heat_figure, name_of, per_request_figure
from explorer.lab.lab import Lab
from explorer.lab.recorded import pack, shipped
from tests.engine.lab.test_concurrency import row
from tests.explorer.scripted_lab import FORM, ended, lab_at, measure, saved, state
from tests.running import until

CROWD = {**FORM, "methods": ["ddtree"], "budgets": [8, 16], "concurrency": [1, 4]}
CURVE = Setting("ddtree", 0)
ASKED = (Setting("autoregressive", 0), *(Setting("ddtree", budget, concurrency=count)
                                         for count in (1, 4) for budget in (16, 8)))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    lab = lab_at(tmp_path_factory.mktemp("concurrency"))
    measure(lab, CROWD)
    return lab


def cells(view: dict[str, Any]) -> dict[tuple[int, str], Any]:
    return {(row["concurrency"], name): cell for row in view["table"]["rows"]
            for name, cell in zip(view["table"]["columns"], row["cells"], strict=True) if cell}


def test_curves_table_and_recommendation_follow_the_number_of_requests(lab: Lab) -> None:
    one, four = lab.curves({"concurrency": 1}), lab.curves({"concurrency": 4})
    assert one["counts"] == four["counts"] == [1, 4]
    assert lab.curves({})["concurrency"] == lab.curves({"concurrency": 3})["concurrency"] == 1
    assert {row["concurrency"] for row in four["table"]["rows"]} == {4}
    best = four["table"]["best"]
    assert best["total"]["median"] == max(row["total"]["median"] for row in four["table"]["rows"] if row["lossless"])
    assert best["total"]["median"] == pytest.approx(4 * best["tokens_per_second"]["median"])
    assert "--concurrency 4" in four["command"] and "engine generate" in one["command"]
    assert four["curves"]["figure"]["layout"]["yaxis2"]["title"]["text"] == "tokens per second, 4 at once"
    single = [{"method": "joint", "budget": 8, "tau": 3.0, "tokens_per_second": 50.0, "rig": "scripted rig",
               "hardware": "no hardware"}]
    assert lab.curves({"points": single})["curves"]["count"] == 1 + lab.curves(
        {"points": single, "concurrency": 4})["curves"]["count"]


def test_every_cell_is_there_with_words_and_in_the_report(lab: Lab) -> None:
    view = lab.concurrency({"concurrency": 4})
    assert (view["lines"], view["line"], view["count"]) == (["ddtree"], "ddtree", 6)
    assert lab.concurrency({"line": "nobody"})["line"] == "ddtree"
    assert list(cells(view)) == [(count, name) for count in (1, 4) for name in ("plain", "8", "16")]
    assert not any(cell["predicted"] for cell in cells(view).values())
    assert [sum(cell["best"] for cell in row["cells"]) for row in view["table"]["rows"]] == [1, 1]
    assert view["words"][0].startswith("The best budget of ddtree, by requests at once: ") and view["accuracy"] == ""
    json.dumps(view, allow_nan=False)
    page, table = saved(lab, "html").decode(), saved(lab, "csv").decode()
    assert "ddtree, 16 nodes, 4 at once" in page and "over node budget and requests at once" in page
    assert "total_tokens_per_second" in table and "ddtree 16, 4 at once" in table


def test_cells_fill_in_while_it_measures(tmp_path: Path) -> None:
    lab = lab_at(tmp_path, 0.001)
    lab.start(CROWD)
    until(lambda: lab.progress({})["done"] >= 2)
    seen = lab.concurrency({})
    assert seen["table"]["columns"] == ["plain", "8", "16"] and len(seen["table"]["rows"]) == 2
    until(lambda: state(lab) == "done")
    assert 0 < seen["count"] <= lab.concurrency({})["count"] == 6


@pytest.mark.slow
def test_what_was_not_measured_is_predicted_and_shares_no_figure_with_another_machine(
        lab: Lab, tmp_path: Path) -> None:
    assert ended(lab, lab.concurrent_cost({"run": "r"}))["result"] == {"prediction": "r"}
    view = lab.concurrency({"prediction": "r"})
    predicted = {key: cell["predicted"] for key, cell in cells(view).items()}
    assert not predicted[4, "16"] and predicted[2, "16"] and predicted[16, "plain"] and predicted[4, "32"]
    assert (1, "0") not in predicted
    assert view["accuracy"].startswith("Against 6 measured cells the prediction is off by")
    other = lab.concurrency({"prediction": "r", "line": "joint"})
    assert other["line"] == "joint" and all(cell["predicted"] for (_, name), cell in cells(other).items()
                                            if name != "plain")

    pack(Path(lab._sweeps._path), tmp_path / "recorded-scripted.sqlite.gz")
    lab._sweeps.recorded, before = shipped(tmp_path), lab._sweeps.recorded
    recorded = lab.concurrency({"prediction": "r", "sweep": 0, "line": "ddtree"})  # measured on another machine
    assert recorded["accuracy"] == "" and recorded["words"][0].startswith("Predicted, not measured: ")
    lab._sweeps.recorded = before
    other = lab.concurrency({"prediction": "r", "sweep": 0, "line": "ddtree"})  # the demo rig's
    assert other["words"][0].startswith("The best budget of ddtree") and other["recorded"]["rig"] == "demo rig"


def test_the_heat_map_marks_the_ridge_and_hatches_what_is_predicted() -> None:
    rows = (row(8, 1, 300, 3), row(16, 1, 500, 5), row(8, 4, 1900, 2))
    guessed = {Setting("ddtree", 16, concurrency=4): 2500.0, Setting("ddtree", 8): 1.0}
    grid = grid_of(CURVE, ASKED, Summary(rows), guessed)
    assert [name_of(column) for column in grid.columns] == ["plain", "8", "16"] and grid.counts == (1, 4)
    figure = heat_figure(grid, 4)
    heat, hatched, labels = figure["data"]
    assert heat["z"] == [[None, 300, 500], [None, 1900, 2500]]
    assert (hatched["x"], hatched["marker"]["pattern"]["shape"]) == ([2], "/")
    assert labels["text"] == ["300", "<b>500</b>", "<b>1,900</b>", "≈2,500"]  # what was measured makes the ridge
    assert [short for _, short in labels["customdata"]] == ["300", "<b>500</b>", "<b>1.9k</b>", "≈2.5k"]
    assert "predicted, not measured" in labels["customdata"][3][0] and "95 %" in labels["customdata"][2][0]
    assert [(shape["x0"], shape["y0"]) for shape in figure["layout"]["shapes"]] == [(1.54, -0.46), (0.54, 0.54)]
    assert figure["layout"]["yaxis"]["ticktext"] == ["1", "▸ 4"]
    assert "16 nodes for 1 at once (500 tokens per second)" in figure["summary"]
    assert "Nothing of ddtree has been measured yet." in heat_figure(
        grid_of(CURVE, ASKED, Summary(()), {}), 1)["summary"]


def test_each_request_has_a_line_for_each_budget_with_intervals() -> None:
    low = replace(row(8, 4, 800, 2), tokens_per_second=replace(row(8, 4, 800, 2).tokens_per_second, low=150, high=260))
    grid = grid_of(CURVE, ASKED, Summary((row(8, 1, 300, 3), low)), {Setting("ddtree", 16, concurrency=4): 400.0})
    eight, sixteen = per_request_figure(grid)["data"]
    assert (eight["name"], eight["x"], eight["y"]) == ("8", [0.0, 2.0], [300, 200])
    assert (eight["error_y"]["array"], eight["error_y"]["arrayminus"]) == ([0, 60], [0, 50])
    assert sixteen["marker"]["symbol"] == ["diamond-open"] and sixteen["y"] == [100.0]
