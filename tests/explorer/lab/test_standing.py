"""How the fastest setting stands against plain decoding, and whether the machine was quiet."""

from __future__ import annotations

from dataclasses import replace

from engine.lab.settings import Setting
from engine.lab.statistics import Estimate, estimate
from engine.lab.summary import Row, Summary
from explorer.lab.table import remark, standing, table_view

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
