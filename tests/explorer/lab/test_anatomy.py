"""The tab of where a tree pays: figures with intervals, predictions on their own axis, flags by the right cost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.lab.machines import FLOOR, machine_curve
from engine.trace import Trace, load
from explorer.lab.anatomy import anatomy_view


@pytest.fixture(scope="module")
def trace() -> Trace:
    return load(Path("assets/traces/arithmetic.jsonl.gz"))


def test_every_figure_has_its_intervals_and_sentences(trace: Trace) -> None:
    view = json.loads(json.dumps(anatomy_view(trace, None, "", "")))
    for name in ("siblings", "rows", "nodes", "trees"):
        figure = view["figures"][name]
        assert figure["summary"] and all("array" in series["error_y"] for series in figure["data"]), name
    assert {"misses", "siblings", "rows", "nodes", "trees", "lacking"} <= set(view["sentences"])
    siblings = view["figures"]["siblings"]["data"][0]
    assert siblings["x"][-3:] == ["after 2nd", "after 3rd", "after 4th+"] and siblings["y"][0] == pytest.approx(10 / 11)


def test_predicted_speeds_stand_alone_and_say_what_they_are(trace: Trace) -> None:
    view = anatomy_view(trace, None, "qwen3-8b", "B200")
    elsewhere = view["elsewhere"]
    assert all("predicted" in series["name"] for series in elsewhere["data"])
    assert "predicted" in elsewhere["layout"]["yaxis"]["title"]["text"] and "never measured here" in view["caution"]
    assert not any("predicted" in series.get("name", "") for figure in view["figures"].values()
                   for series in figure["data"])
    floor = machine_curve("qwen3-8b", "B200", FLOOR)
    kept = 52 / 11  # of 16 nodes, a round
    assert elsewhere["data"][0]["y"][-1] == pytest.approx((1 + kept) * floor.plain_ms / floor.round_ms(17, 16, 1))
    assert view["priced"] == "B200, predicted: published loop"


def test_what_was_measured_here_comes_first(trace: Trace) -> None:
    here = replace(machine_curve("qwen3-4b", "L4", FLOOR), hardware="this processor")
    view = anatomy_view(trace, here, "qwen3-coder-30b-a3b", "L4")
    assert view["priced"] == "this processor" and view["elsewhere"] is None and "has 24 GB" in view["misfit"]
    assert [row["engine"] for row in view["flags"]] == ["vLLM", "SGLang", "llama.cpp", "SGLang, a tree", "Canopy"]


def test_a_run_that_drafts_nothing_shows_a_sentence() -> None:
    view = anatomy_view(load(Path("assets/traces/plain.jsonl.gz")), None, "", "")
    assert set(view["figures"].values()) == {None} and view["elsewhere"] is None and view["flags"] == []
    assert view["sentences"]["lacking"] == ["No round drafted anything, so there is nothing to take apart."]
