"""Several concurrent requests on the page: the slider, the heat map, predictions, the report."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.lab.settings import Setting
from engine.lab.summary import Summary
from explorer.lab.concurrency import concurrency_view
from tests.engine.lab.test_concurrency import row
from tests.explorer.scripted_lab import FORM, lab_at, measure, measured_lab, saved_file, state
from tests.running import until

CROWD = {**FORM, "methods": ["ddtree"], "budgets": [8, 16], "concurrency": [1, 4]}
ASKED = (Setting("autoregressive", 0), *(Setting("ddtree", budget, concurrency=count)
                                         for count in (1, 4) for budget in (16, 8)))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = lab_at(tmp_path_factory.mktemp("concurrency"))
    measure(lab, CROWD)
    return lab


def test_curves_table_and_recommendation_are_those_of_the_number_of_requests(lab: Any) -> None:
    one, four = lab.curves({"concurrency": 1}), lab.curves({"concurrency": 4})
    assert one["counts"] == four["counts"] == [1, 4]
    assert lab.curves({})["concurrency"] == lab.curves({"concurrency": 3})["concurrency"] == 1
    assert {row["concurrency"] for row in four["table"]["rows"]} == {4}
    best = four["table"]["best"]
    assert best["total"]["median"] == max(row["total"]["median"] for row in four["table"]["rows"] if row["lossless"])
    assert "--concurrency 4" in four["command"] and "engine generate" in one["command"]
    assert four["curves"]["figure"]["layout"]["yaxis2"]["title"]["text"] == "tokens per second, 4 at once"


def test_a_curve_is_measured_again_with_its_prompts_and_settings(tmp_path: Path) -> None:
    lab = measured_lab(tmp_path, CROWD)
    before = lab.progress({})
    lab.control({"do": "repeat", "sweep": before["sweep"], "line": "ddtree"})
    until(lambda: state(lab) == "done")
    after = lab.progress({})
    assert after["sweep"] > before["sweep"] and after["command"] == before["command"]


def test_every_cell_is_in_the_report_and_has_a_description(lab: Any) -> None:
    view = lab.concurrency({"concurrency": 4})
    assert (view["lines"], view["line"]) == (["ddtree"], "ddtree")
    assert lab.concurrency({"line": "nobody"})["line"] == "ddtree"
    assert (view["columns"], [row["concurrency"] for row in view["rows"]]) == (["plain", "8", "16"], [1, 4])
    assert [sum(cell["best"] for cell in row["cells"]) for row in view["rows"]] == [1, 1]
    assert [words.partition(":")[0] for words in view["words"][:-1]] == ["1 request at once", "4 requests at once"]
    assert f"{FORM['prompts']} prompts" in view["words"][-1]
    json.dumps(view, allow_nan=False)
    page, table = saved_file(lab, "html").decode(), saved_file(lab, "csv").decode()
    assert "ddtree, 16 nodes, 4 at once" in page and "over node budget and requests at once" in page
    assert "total_tokens_per_second" in table and "ddtree 16, 4 at once" in table


def test_a_row_whose_speeds_are_not_compared_says_why_and_has_no_best() -> None:
    plain = replace(row(8, 4, 2000, 1), setting=Setting("autoregressive", 0, concurrency=4))
    view = concurrency_view(Summary((row(8, 1, 300, 3), row(8, 4, 1900, 2, "Something else ran."), plain)), ASKED)
    assert [line["withheld"] for line in view["rows"]] == ["", "Something else ran."]
    assert not any(cell["best"] for cell in view["rows"][1]["cells"] if cell)
    assert view["heat"] and view["heat"]["data"][0]["z"][1] == [None] * 3


def test_the_heat_map_marks_the_best_of_each_number_unless_it_is_withheld() -> None:
    rows = (row(8, 1, 300, 3), row(16, 1, 500, 5), row(8, 4, 1900, 2, "Something else ran."))
    view = concurrency_view(Summary(rows), ASKED, concurrency=4)
    assert view["columns"] == ["plain", "8", "16"] and [row["concurrency"] for row in view["rows"]] == [1, 4]
    figure = view["heat"]
    assert figure
    heat, labels = figure["data"]
    assert heat["z"] == [[None, 300, 500], [None, None, None]], "withheld values have no description"
    assert labels["text"] == ["300", "<b>500</b>", "1900"]
    assert "95 %" in labels["customdata"][1][0] and "Something else ran." in labels["customdata"][2][0]
    assert [(shape["x0"], shape["y0"]) for shape in figure["layout"]["shapes"]] == [(1.54, -0.46)]
    assert figure["layout"]["yaxis"]["ticktext"] == ["1", "▸ 4"]
    assert "ddtree, 16 nodes (500 tokens per second)" in figure["summary"]
