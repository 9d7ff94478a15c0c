"""The lab's figures: positions of points, marks, invalid points from a browser, remarks on a table."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from engine.decoding.budget_policy import MAX_AUTO_NODES
from engine.decoding.methods import METHODS
from engine.lab.settings import Setting
from engine.lab.statistics import Estimate, estimate
from engine.lab.summary import Row, Summary
from engine.trace import load
from explorer.lab.acceptance import run_view
from explorer.lab.curves import CurvePoint, curves_figure, curves_view
from explorer.lab.prediction import machine_prediction
from explorer.lab.recorded import FIRST_RECORDED
from explorer.lab.report import figures
from explorer.lab.style import LOOKS, SPARE, log_axis
from explorer.lab.table import outcome, remark, table_view
from tests.explorer.scripted_lab import lab_at, wait_for_job

CSS = Path("assets/stage.css").read_text("utf8")


def point(method: str, budget: int, tau: float, speed: float, pace: str = "fixed") -> CurvePoint:
    return CurvePoint(Setting(method, budget, pace=pace), estimate([tau] * 6), estimate([speed] * 6))


def auto(method: str, tau: float, speed: float) -> CurvePoint:
    return point(method, MAX_AUTO_NODES, tau, speed, "auto")


POINTS = [point("ddtree", 8, 3, 300), point("ddtree", 64, 5, 450), point("joint", 64, 6, 500),
         point("autoregressive", 0, 1, 100)]


def drawn(points: Sequence[CurvePoint], best: CurvePoint | None = None) -> Any:
    return curves_figure(points, (), best)


def traces(figure: Mapping[str, Any], meta: str) -> list[Any]:
    return [trace for trace in figure["data"] if trace.get("meta") == meta]


def legend(figure: Mapping[str, Any]) -> list[str]:
    return [trace["name"] for trace in figure["data"] if trace.get("showlegend", True)]


def all_figures(value: Any) -> list[Any]:
    """Return all figures in the value."""
    if isinstance(value, dict) and {"data", "layout", "summary"} <= set(value):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [figure for item in inner for figure in all_figures(item)]


@pytest.mark.slow
def test_plotly_accepts_every_figure_unchanged() -> None:
    """Figures are plain dictionaries, which nothing checks when they are made."""
    lab = lab_at()
    wait_for_job(lab, lab.what_if({"run": "r"}))
    recorded = lab.lab.sweeps.view(FIRST_RECORDED, concurrent=True)
    assert recorded.stored is not None
    trace = load(Path("assets/traces/arithmetic.jsonl.gz"))
    every = all_figures([
        figures(recorded.stored, recorded.measured, recorded.summary), run_view(trace),
        machine_prediction(trace, None, "", ""), lab.acceptance({"run": "r"}), lab.curves({"what_if": "r"}),
        lab.concurrency({"sweep": FIRST_RECORDED})])
    assert len(every) == 5 + 6 + 1 + 6 + 3 + 1
    for figure in every:
        shown = {name: value for name, value in figure.items() if name in ("data", "layout")}
        go.Figure(json.loads(json.dumps(shown, allow_nan=False)))
        assert figure["summary"]


def test_a_method_has_a_trace_in_each_plot_and_the_best_is_marked() -> None:
    figure = drawn(POINTS, POINTS[2])
    named = [(trace["name"], trace["yaxis"]) for trace in traces(figure, "swept") if "error_y" in trace]
    assert named == [(name, axis) for name in ("autoregressive", "ddtree", "joint") for axis in ("y", "y2")]
    [best] = traces(figure, "best")
    assert best["x"] == [pytest.approx(64, rel=0.1)] and (best["y"], best["yaxis"]) == ([500], "y2")
    assert "joint, 64 nodes" in figure["layout"]["annotations"][0]["text"] and "joint, 64 nodes" in figure["summary"]
    plain, across = traces(figure, "swept")[:2]
    assert (plain["x"], plain["y"], across["x"], across["y"]) == ([4], [1], [4, 64], [1, 1])


@pytest.mark.parametrize(("points", "ticks", "zero", "paced"), [
    (POINTS, {"0": 4, "8": 8, "64": 64}, 4, None), ([point("ddtree", 8, 3, 300)], {"8": 8}, 4, None),
    ([*POINTS, auto("ddtree", 4, 440)], {"0": 4, "8": 8, "64": 64, "auto": 128}, 4, 128),
    ([point("autoregressive", 0, 1, 100), auto("ddtree", 4, 440)], {"0": 1, "auto": 2}, 1, 2), ([], {}, 1, None)])
def test_every_budget_has_its_tick(points: list[CurvePoint], ticks: dict[str, float], zero: float,
                                   paced: float | None) -> None:
    figure = drawn(points)
    axis = figure["layout"]["xaxis2"]
    assert dict(zip(axis["ticktext"], axis["tickvals"], strict=True)) == ticks
    assert (figure["zero"], figure["auto"]) == (zero, paced)
    assert points or figure["summary"] == "No setting has been measured."


def test_auto_is_a_horizontal_line_with_its_marker_away_from_the_numbers() -> None:
    fastest = auto("joint", 7, 600)
    figure = drawn([*POINTS, auto("ddtree", 4, 440), fastest], fastest)
    paced = [trace for trace in traces(figure, "swept") if trace["customdata"][0][3] == "auto"]
    marks, lines = paced[::2], paced[1::2]
    assert [(trace["legendgroup"], trace["y"]) for trace in marks] == [
        ("ddtree", [4]), ("ddtree", [440]), ("joint", [7]), ("joint", [600])]
    assert len({trace["x"][0] for trace in marks}) == 2, "their intervals are side by side"
    assert [(trace["x"], trace["y"]) for trace in lines] == [([4, 128], 2 * trace["y"]) for trace in marks]
    assert all("array" in mark["error_y"] and "error_y" not in line for mark, line in zip(marks, lines, strict=True))
    curve = next(trace for trace in traces(figure, "swept") if trace["name"] == "ddtree")
    assert curve["x"] == pytest.approx([8, 64], rel=0.1), "auto is not a point of the curve"
    [best], [note] = traces(figure, "best"), figure["layout"]["annotations"]
    assert (best["x"], best["y"]) == (marks[-1]["x"], [600]) and "fastest: joint, auto" in note["text"]
    assert note["x"] == math.log10(best["x"][0])  # Plotly places annotations on a logarithmic axis by the exponent
    assert legend(figure) == ["autoregressive", "ddtree", "joint"]


def test_layers_have_different_styles_and_predictions_are_labelled() -> None:
    guessed = [replace(point, predicted=True) for point in (*POINTS[:2], auto("ddtree", 4, 440))]
    figure = curves_figure(POINTS, guessed, None)
    for trace in traces(figure, "predicted"):
        assert all("predicted" in words for _, _, words, _ in trace["customdata"]) and "error_y" not in trace
        assert trace["mode"] == "lines" and trace["line"]["dash"] == "dot"
    assert not any("predicted" in trace["customdata"][0][2] for trace in traces(figure, "swept"))
    assert legend(figure) == ["autoregressive", "ddtree", "joint", "predicted"]


def test_intervals_are_drawn_and_described() -> None:
    few, many = Estimate(5, None, None, 4, 7, 3), Estimate(5, 4.5, 6, 4, 7, 9)
    at_eight = CurvePoint(Setting("ddtree", 8), few, many)
    tau, speed = (trace["error_y"] for trace in drawn([at_eight])["data"][:2])
    assert (tau["array"], tau["arrayminus"]) == ([2], [1]) and (speed["array"], speed["arrayminus"]) == ([1], [0.5])
    assert at_eight.words("tau").endswith("3 prompts: 4.00 to 7.00")
    assert at_eight.words("speed").endswith("9 prompts, 95 %: 4 to 6")


def test_every_method_has_its_own_style_in_both_themes() -> None:
    looks = [*LOOKS.values(), *SPARE]
    assert set(METHODS) <= set(LOOKS)
    assert len({(look.color, look.dash) for look in looks}) == len({look.symbol for look in looks}) == len(looks)
    assert not {look.color for look in SPARE} & {look.color for look in LOOKS.values()}
    drawn_together = ("autoregressive", "dflash", "ddtree", "routed", "merged", "joint")
    assert len({LOOKS[method].dash for method in drawn_together}) == len(drawn_together), "dashes differ"
    light, dark = CSS.split("body.dark {")[0], CSS.split("body.dark {")[1].split("}")[0]
    for name in {look.color[4:-1] for look in looks}:
        assert name.startswith("--method-") and f"{name}:" in light and f"{name}:" in dark


STEADY = (100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0)


def row(method: str, speeds: tuple[float, ...], speedup: Estimate | None) -> Row:
    return Row(Setting(method, 0 if method == "autoregressive" else 32), len(speeds), 0, 100, 20, 5.0,
               estimate([5.0] * len(speeds)), estimate(speeds), estimate(speeds), speedup, None, len(speeds),
               len(speeds))


def vs_plain(speedups: tuple[float, ...], plain: tuple[float, ...] = STEADY) -> Summary:
    rows = (row("autoregressive", plain, None), row("ddtree", (150.0,) * len(speedups), estimate(speedups)))
    return Summary(rows)


SLOWER = Summary((row("autoregressive", STEADY, None), row("ddtree", (50.0,) * 6, estimate((0.5,) * 6))))


@pytest.mark.parametrize(("summary", "named", "sentence"), [
    (vs_plain((0.8, 1.4, 0.9, 1.3, 1.2, 1.1)), "unclear", "between 0.80× and 1.40×"),
    (vs_plain((1.8, 1.4, 1.9, 1.3, 1.2, 1.1)), "faster", "no other setting comes within 5 %"),
    (vs_plain((1.8, 1.9)), "few", "six or more"), (SLOWER, "plain", "no drafter paid"), (Summary(()), "", ""),
    (vs_plain((1.8,) * 6, plain=(100.0, 60.0, 130.0, 100.0, 90.0, 110.0)), "faster", "other programs were using this")])
def test_the_remark_on_the_fastest_setting_depends_on_its_interval(summary: Summary, named: str, sentence: str) -> None:
    view = table_view(summary)
    assert view["outcome"] == outcome(summary.best) == named and sentence in view["remark"]
    assert ("other programs" in view["remark"]) == ("other programs" in sentence)


def with_rivals(*rivals: tuple[float, ...]) -> Summary:
    """Return a setting at about 100 tokens/s, and others at these speeds."""
    best = row("ddtree", STEADY, estimate((2.0,) * 7))
    return Summary((best, *(replace(row("joint", speeds, None), setting=Setting("joint", 2**place))
                            for place, speeds in enumerate(rivals))))


def remark_beside(*rivals: tuple[float, ...]) -> str:
    return remark(with_rivals(*rivals))


def test_a_setting_that_overlaps_the_best_or_is_within_5_percent_is_named() -> None:
    wide = (40.0, 60.0, 80.0, 85.0, 90.0, 99.0, 101.0)  # overlaps the best, though its median is far below
    assert "no other setting" not in remark_beside(wide) and "joint, 1 node" in remark_beside(wide)
    assert "joint, 2 nodes" in remark_beside((97.0,) * 7, wide)
    assert "5 other settings" in remark_beside(*[wide] * 5)
    assert "no other setting" not in remark_beside((96.5,) * 7) and "joint, 1 node" in remark_beside((96.5,) * 7)
    assert "no other setting comes within 5 %" in remark_beside((94.0,) * 7)
    assert table_view(with_rivals(*[wide] * 3))["rivals"] == ["joint, 1 node", "joint, 2 nodes", "joint, 4 nodes"]
    assert table_view(with_rivals(wide))["rivals"] == [], "the remark names the rival"


def test_the_table_says_what_is_counted_and_lists_withheld_rows_last() -> None:
    plain, best = vs_plain((1.8,) * 6).rows
    assert "In 3 of 13 runs" in remark(Summary((plain, replace(best, repeating=3))))
    slow = replace(row("joint", (50.0,) * 6, estimate((0.5,) * 6)), setting=Setting("joint", 8))
    rows = table_view(Summary((plain, replace(best, speedup=None, withheld="It was chance."), slow)))["rows"]
    assert [line["line"] for line in rows] == ["autoregressive", "joint", "ddtree"]


def test_ticks_of_a_logarithmic_axis_are_numbers() -> None:
    assert log_axis("milliseconds", 4.0, 60.0)["ticktext"] == ["5", "10", "20", "50"]
    assert log_axis("milliseconds", 0.3, 0.4)["tickvals"]


def test_a_speed_up_that_is_withheld_is_neither_shown_nor_counted() -> None:
    plain, best = vs_plain((1.8,) * 6).rows
    summary = Summary((plain, replace(best, speedup=None, withheld="It was chance.")))
    view = table_view(summary)
    assert view["outcome"] == "withheld" and "It was chance." in view["remark"] and view["best"]
    assert (view["best"]["speedup"], view["best"]["record"].times) == (None, "")
    assert not any(line["fastest"] for line in view["rows"])
    figure = curves_view(summary)["figure"]
    assert not traces(figure, "best") and not figure["layout"]["annotations"]
    named = [{trace["name"] for trace in traces(figure, "swept") if trace["yaxis"] == axis} for axis in ("y", "y2")]
    assert named == [{"autoregressive", "ddtree"}, {"autoregressive"}]
