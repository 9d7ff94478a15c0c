"""The curve of a recording: its prompt at several budgets, each interleaved with plain decoding."""

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.commands.record import RecordingPlan, measure_curve, run
from engine.records import PromptRequest, Round
from engine.trace import trace_from_lines
from tests.explorer.scripted import ScriptedSource, prompt_for

PLAN: dict[str, Any] = {"name": "one", "title": "", "note": "", "prompt": prompt_for(150), "max_tokens": 150}


class TimedRig:
    """Time scripted rounds: 20 ms if plain, 30 ms if drafted; plain ones are delayed at budget ``busy``."""

    def __init__(self, busy: int = 0) -> None:
        self.busy = busy

    @contextmanager
    def interleaved(self, asks: Sequence[PromptRequest]) -> Iterator[list[Iterator[Round]]]:
        yield [self.rounds(ask, delayed=self.busy == asks[0].budget) for ask in asks]

    def rounds(self, ask: PromptRequest, delayed: bool) -> Iterator[Round]:
        for number, round_ in enumerate(trace_from_lines(ScriptedSource().run(ask)).rounds):
            seconds = 0.03 if ask.budget else 0.1 if delayed and number // 8 % 2 else 0.02
            yield replace(round_, seconds={"verify": seconds})


@pytest.mark.parametrize("busy", [0, 8])
def test_a_curve_has_a_point_at_every_undisturbed_budget(busy: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.commands.record.CURVE_BUDGETS", (4, 8, 16))
    plan = RecordingPlan.model_validate({**PLAN, "method": "ddtree", "budget": 12})
    rig: Any = TimedRig(busy)
    curve = measure_curve(rig, plan, RecordingPlan.model_validate({**PLAN, "method": "autoregressive", "budget": 0}))
    assert {point.budget for point in curve} == {4, 8, 12, 16} - {busy}
    assert all(point.ratio == pytest.approx(point.tau / 1.5, rel=0.1) for point in curve)
    assert all(point.low <= round(point.ratio, 2) <= point.high for point in curve)


def test_a_missing_film_round_is_named_and_the_recording_kept(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source: Any = ScriptedSource()
    source.drafters_for = lambda method, drafters: {}
    monkeypatch.setattr("engine.commands.record.open_rig", lambda name, dtype: source)
    plans = tmp_path / "lessons.json"
    plans.write_text(json.dumps([{**PLAN, "method": "ddtree", "budget": 12, "film_round": 999}]))
    outcome = run(Namespace(plans=plans, rig="scripted", dtype="auto", out=tmp_path))
    assert "999" in outcome.text and (tmp_path / "one.jsonl.gz").is_file()
