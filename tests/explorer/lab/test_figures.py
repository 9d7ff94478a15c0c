"""The lab's figures: where points stand, what is marked, what bad points of a browser do."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.decoding.budget_policy import MOST_AUTO
from engine.decoding.methods import METHODS
from engine.lab.settings import Setting
from engine.lab.statistics import Estimate, estimate
from engine.lab.summary import Row, Summary
from explorer.lab.curves import CurvePoint, Scale, curves_figure, in_words, live_figure, predicted, single, swept
from explorer.lab.service import LabService
from explorer.lab.style import LOOKS, SPARE, looks_view
from explorer.lab.table import remark, single_points, standing, table_view
from explorer.run_queue import RunQueue
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import answering
from tests.running import until

CSS = Path("assets/lab/lab.css").read_text("utf8")


def point(method: str, budget: int, tau: float, speed: float) -> CurvePoint:
    return CurvePoint(Setting(method, budget), estimate([tau] * 6), estimate([speed] * 6))


def auto(method: str, tau: float, speed: float, most: int = MOST_AUTO) -> CurvePoint:
    return CurvePoint(Setting(method, most, pace="auto"), estimate([tau] * 6), estimate([speed] * 6))


POINTS = [point("ddtree", 8, 3, 300), point("ddtree", 64, 5, 450), point("joint", 64, 6, 500),
         point("autoregressive", 0, 1, 100)]


def test_the_axis_is_logarithmic_and_zero_stands_left_of_it() -> None:
    scale = Scale((0, 8, 64))
    assert [scale.place(budget) for budget in (0, 8, 64)] == [4, 8, 64]
    assert scale.ticks()["ticktext"] == ["0", "8", "64"]
    assert Scale(()).place(0) == Scale((0,)).place(0) == 1


def test_a_method_has_a_trace_in_each_plot_and_the_best_is_marked() -> None:
    figure = curves_figure([swept(POINTS)], POINTS[2])
    named = [(trace["name"], trace["yaxis"]) for trace in figure["data"] if trace.get("meta") == "swept"]
    assert named == [(name, axis) for name in ("autoregressive", "ddtree", "joint") for axis in ("y", "y2")]
    best = next(trace for trace in figure["data"] if trace.get("meta") == "best")
    assert (best["x"], best["y"], best["yaxis"]) == ([64], [500], "y2")
    assert "joint, 64 nodes" in figure["layout"]["annotations"][0]["text"] and "joint, 64 nodes" in figure["summary"]
    plain = next(trace for trace in figure["data"] if trace["name"] == "autoregressive")
    assert plain["x"] == [figure["zero"], 64] and plain["y"] == [1, 1]


def test_auto_is_a_line_across_with_its_marker_in_a_place_without_a_number() -> None:
    fastest = auto("joint", 7, 600)
    figure = curves_figure([swept([*POINTS, auto("ddtree", 4, 440), fastest])], fastest)
    assert (figure["zero"], figure["auto"]) == (4, 128)
    axis = figure["layout"]["xaxis2"]
    assert (axis["tickvals"][-2:], axis["ticktext"][-2:]) == ([64, 128], ["64", "auto"])
    paced = [trace for trace in figure["data"] if trace["meta"] == "swept" and trace["customdata"][0][3] == "auto"]
    marks, lines = paced[::2], paced[1::2]
    assert [(trace["legendgroup"], trace["x"], trace["y"]) for trace in marks] == [
        ("ddtree", [128], [4]), ("ddtree", [128], [440]), ("joint", [128], [7]), ("joint", [128], [600])]
    assert [(trace["x"], trace["y"]) for trace in lines] == [
        ([4, 128], 2 * trace["y"]) for trace in marks]
    assert all("array" in trace["error_y"] and trace["marker"]["size"] == 10 for trace in marks)
    assert all("error_y" not in trace and trace["marker"]["size"] == [0, 0] for trace in lines)
    assert len({trace["marker"]["symbol"] for trace in marks}) == 2  # colour is not the only code
    assert "<b>joint, auto</b>" in marks[-1]["customdata"][0][2]
    curve = next(trace for trace in figure["data"] if trace["name"] == "ddtree")
    assert curve["x"] == [8, 64]  # auto is no point of the curve
    best = next(trace for trace in figure["data"] if trace.get("meta") == "best")
    assert (best["x"], best["y"]) == ([128], [600])
    named = figure["layout"]["annotations"][0]
    assert "fastest: joint, auto" in named["text"]
    assert named["x"] == math.log10(128)  # where Plotly wants it on a logarithmic axis
    plain = next(trace for trace in figure["data"] if trace["name"] == "autoregressive")
    assert plain["x"] == [4, 128]
    legend = [trace["name"] for trace in figure["data"] if trace.get("showlegend", True)]
    assert legend == ["autoregressive", "ddtree", "joint"]


def test_auto_alone_has_a_place_and_without_it_there_is_none() -> None:
    assert curves_figure([swept(POINTS)], None)["auto"] is None
    alone = curves_figure([swept([point("autoregressive", 0, 1, 100), auto("ddtree", 4, 440)])], None)
    assert alone["layout"]["xaxis2"]["ticktext"] == ["0", "auto"] and alone["auto"] > alone["zero"]
    guessed = curves_figure([predicted([*POINTS[:2], auto("ddtree", 4, 440)])], None)["data"]
    line = next(trace for trace in guessed if trace["x"] == [4, 128])
    assert line["mode"] == "lines" and line["hovertemplate"].endswith(", predicted<extra></extra>")


def test_layers_are_told_apart_and_predictions_are_labelled() -> None:
    figure = curves_figure([swept(POINTS), single(POINTS[:1]), predicted(POINTS[:2])], None)
    by_meta = {trace["meta"]: trace for trace in figure["data"]}
    assert by_meta["predicted"]["name"].endswith(", predicted")
    assert by_meta["predicted"]["mode"] == "lines" and by_meta["predicted"]["line"]["dash"] == "dot"
    assert by_meta["predicted"]["hovertemplate"].endswith(", predicted<extra></extra>")
    assert by_meta["runs"]["marker"]["symbol"] == "circle-open"
    legend = [trace["name"] for trace in figure["data"] if trace.get("showlegend", True)]
    assert legend == ["autoregressive", "ddtree", "joint", "single runs", "predicted"]


def test_intervals_and_their_words() -> None:
    few, many = Estimate(5, None, None, 4, 7, 3), Estimate(5, 4.5, 6, 4, 7, 9)
    figure = curves_figure([swept([CurvePoint(Setting("ddtree", 8), few, many)])], None)
    tau, speed = (trace["error_y"] for trace in figure["data"][:2])
    assert (tau["array"], tau["arrayminus"]) == ([2], [1]) and (speed["array"], speed["arrayminus"]) == ([1], [0.5])
    words = CurvePoint(Setting("ddtree", 8), few, many)
    assert in_words(words, "tau").endswith("3 prompts, 4.00 to 7.00")
    assert in_words(words, "speed").endswith("9 prompts, 95 %: 4 to 6")


def test_an_empty_figure_is_a_figure() -> None:
    assert curves_figure([swept([])], None)["summary"] == "No setting has been measured."


def test_single_runs_are_grouped_and_what_is_malformed_is_left_out() -> None:
    good = {"method": "ddtree", "budget": 8, "split": "total", "temperature": 0, "tau": 3.0, "tokens_per_second": 90.0}
    bad: list[Any] = [{}, None, 7, {**good, "method": "magic"}, {**good, "tau": "x"}, {**good, "tau": math.nan},
           {**good, "budget": -1}, {**good, "tokens_per_second": 0}]
    found = single_points([good, *bad, {**good, "tau": 5.0}, {**good, "temperature": 1},
                          {**good, "pace": "auto"}])
    assert [(each.line, each.label, each.tau.median, each.of) for each in found] == [
        ("ddtree", "ddtree, 8 nodes", 4.0, "runs"), ("ddtree T 1", "ddtree T 1, 8 nodes", 3.0, "runs"),
        ("ddtree", "ddtree, auto up to 8 nodes", 3.0, "runs")]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_look_of_its_own(method: str) -> None:
    look = LOOKS[method]
    assert look.color.startswith("var(--method-") and f"{look.color[4:-1]}:" in CSS
    assert looks_view()[method]["dash"] == look.dash


def test_no_two_looks_are_the_same() -> None:
    looks = [*LOOKS.values(), *SPARE]
    assert len({(each.color, each.dash) for each in looks}) == len({each.symbol for each in looks}) == len(looks)
    assert not {each.color for each in SPARE} & {each.color for each in LOOKS.values()}


def test_methods_are_told_apart_without_colour() -> None:
    drawn_together = ("autoregressive", "dflash", "ddtree", "routed", "merged", "joint")
    assert len({LOOKS[method].dash for method in drawn_together}) == len(drawn_together)


def test_every_colour_is_there_in_both_themes() -> None:
    light, dark = CSS.split("body.dark {")[0], CSS.split("body.dark {")[1].split("}")[0]
    for name in {look.color[4:-1] for look in (*LOOKS.values(), *SPARE)}:
        assert f"{name}:" in light and f"{name}:" in dark


def test_the_live_figure_says_what_each_trace_is_filled_with() -> None:
    assert [trace["meta"] for trace in live_figure()["data"]] == [
        "tau.recent", "tau.all", "speed.recent", "speed.all", "speed.plain"]


@pytest.mark.slow
def test_what_if_is_drawn_as_predicted(tmp_path: Path) -> None:
    lab = LabService(answering(None, ScriptedInstruments()), lambda run: scripted_trace("joint", 32), RunQueue(),
                     tmp_path / "results.sqlite")
    answers = {answer.__name__: answer for answer in lab.functions()}
    begun = answers["lab_what_if"]({"run": "r"})
    until(lambda: answers["lab_job"](begun)["state"] == "done")
    assert answers["lab_job"](begun)["result"]["departures"] == 0
    curves = lab.curves({"what_if": "r"})["curves"]
    assert curves["predicted"]["lines"] == ["ddtree", "joint"]
    other = lab.curves({"what_if": "r", "line": "ddtree"})["curves"]
    drawn = [trace for trace in other["figure"]["data"] if trace["meta"] == "predicted"]
    assert {trace["legendgroup"] for trace in drawn} == {"ddtree"} and other["predicted"]["line"] == "ddtree"
    assert "key.predicted" in {trace["meta"] for trace in other["figure"]["data"]}
    json.dumps(curves)


STEADY = (100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0)


def row(method: str, speeds: tuple[float, ...], speedup: Estimate | None) -> Row:
    return Row(Setting(method, 0 if method == "autoregressive" else 32), len(speeds), 0, 100, 20, 5.0,
               estimate([5.0] * len(speeds)), estimate(speeds), estimate(speeds), speedup, len(speeds), len(speeds))


def found(speedups: tuple[float, ...], plain: tuple[float, ...] = STEADY) -> Summary:
    rows = (row("autoregressive", plain, None), row("ddtree", (150.0,) * len(speedups), estimate(speedups)))
    return Summary(rows)


def test_an_interval_that_holds_one_is_not_separable() -> None:
    unclear = found((0.8, 1.4, 0.9, 1.3, 1.2, 1.1))
    assert standing(unclear.best) == table_view(unclear)["standing"] == "unclear"
    assert "between 0.80× and 1.40×" in remark(unclear)
    assert standing(found((1.8, 1.4, 1.9, 1.3, 1.2, 1.1)).best) == "faster"


def test_two_prompts_have_no_interval() -> None:
    few = found((1.8, 1.9))
    assert standing(few.best) == "few" and "six or more" in remark(few)


def test_plain_decoding_may_be_the_fastest() -> None:
    summary = Summary((row("autoregressive", STEADY, None), row("ddtree", (50.0,) * 6, estimate((0.5,) * 6))))
    assert standing(summary.best) == "plain" and "no drafter paid" in remark(summary)
    assert standing(Summary(()).best) == ""


def close_to(*rivals: tuple[float, ...]) -> str:
    """What is said of a setting at 100 tokens/s, give or take two, beside others at these speeds."""
    best = row("ddtree", STEADY, estimate((2.0,) * 7))
    others = [replace(row("joint", speeds, None), setting=Setting("joint", 2**place))
              for place, speeds in enumerate(rivals)]
    return remark(Summary((best, *others)))


def test_another_setting_whose_interval_overlaps_is_named_however_far_its_median_is() -> None:
    wide = (40.0, 60.0, 80.0, 85.0, 90.0, 99.0, 101.0)
    assert "no other setting" not in close_to(wide) and "joint, 1 nodes" in close_to(wide)
    assert "joint, 2 nodes" in close_to((97.0,) * 7, wide)
    assert "2 others" in close_to(*[wide] * 5)


def test_another_setting_within_5_percent_is_named_though_its_interval_is_apart() -> None:
    assert "no other setting" not in close_to((96.5,) * 7) and "joint, 1 nodes" in close_to((96.5,) * 7)
    assert "no other setting comes within 5 %" in close_to((94.0,) * 7)


def test_a_speed_up_that_is_withheld_is_neither_shown_nor_counted() -> None:
    plain, best = found((1.8,) * 6).rows
    summary = Summary((plain, replace(best, speedup=None, withheld="It was chance.")))
    view = table_view(summary)
    assert view["standing"] == "withheld" and "It was chance." in view["remark"]
    assert (view["best"]["speedup"], view["best"]["withheld"]) == (None, "It was chance.")
    rival = replace(row("joint", (150.0,) * 6, None), setting=Setting("joint", 64))
    assert "overlaps with that of joint, 64 nodes" in remark(Summary((*summary.rows, rival)))
    pair = found((1.8, 1.9))
    assert "It was chance." in remark(Summary((pair.rows[0], replace(pair.rows[1], speedup=None, withheld="It was "
                                                                     "chance."))))


def test_other_programs_on_the_machine_are_reported() -> None:
    busy = found((1.8,) * 6, plain=(100.0, 60.0, 130.0, 100.0, 90.0, 110.0))
    assert "other programs were using this machine" in remark(busy)
    assert "other programs" not in remark(found((1.8,) * 6))
