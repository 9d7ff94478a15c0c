"""What is always said of the embedded rig is true of the files that ship."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from explorer.embedded import MODEL, TITLE, model_line
from explorer.presets import read_presets
from explorer.view import header_view
from tests.explorer.scripted import scripted_trace

DEMO = Path("assets/demo")


def test_the_number_is_that_of_the_weights() -> None:
    count = json.loads((DEMO / "target" / "training.json").read_text("utf8"))["parameters"]
    assert f"{count / 1e6:.0f} million parameters" in MODEL
    assert json.loads((DEMO / "rig.json").read_text("utf8"))["title"] == TITLE


def test_it_is_said_of_that_rig_alone() -> None:
    header = scripted_trace("ddtree", 8).header
    assert model_line(header) == "" and header_view(header)["model"] == ""
    own = replace(header, rig=TITLE, note="This prompt lies outside what the demo rig was trained for.")
    assert header_view(own)["model"] == MODEL and header_view(own)["outside"]
    assert model_line(replace(own, engine="another engine")) == ""


def test_whether_a_method_is_lossless_is_told_where_it_is_known() -> None:
    header = replace(scripted_trace("ddtree", 8).header, rig=TITLE)
    biased = replace(header, request=replace(header.request, method="nanogpt_ratio"))
    assert (header_view(header)["lossless"], header_view(biased)["lossless"]) == (True, False)
    retired = replace(header, request=replace(header.request, method="unknown"))
    assert header_view(retired)["lossless"] is None and header_view(retired)["model"] == MODEL
    outside = replace(header, request=replace(header.request, method="theirs"), engine="another engine")
    assert header_view(outside)["lossless"] is None and header_view(outside)["model"] == ""


def test_the_prompts_that_it_answers_right_are_presets() -> None:
    right = read_presets(Path("assets/prompts")).right()
    assert len(right) == 3 and all(each["prompt"] and each["label"] for each in right)
