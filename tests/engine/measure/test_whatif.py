"""What-if, cost curve and budget=auto on the demo rig: forecasts equal real runs."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from engine.budget.cost import CostCurve
from engine.decoding.tree import depths
from engine.errors import CancellationError, RequestError
from engine.lab.settings import Setting
from engine.measure.whatif import text_of_run, what_if
from engine.models.target import TorchTarget
from engine.records import PackedTree, PromptRequest, Sampling, Verification
from engine.requests.prompts import read_prompts
from engine.serving.cost import (
    FULL,
    MIN_REPEATS,
    QUICK,
    CostCase,
    CostCurves,
    Effort,
    context_bucket,
    mock_rounds,
    mock_tree,
)
from engine.trace import Trace, dumps, loads, trace_from_lines
from tests.engine.demo import demo_live, demo_rig
from tests.engine.helpers import GREEDY
from tests.engine.lab.scripted import CURVE

PROMPT = read_prompts(Path("assets/prompts/mixed.jsonl"))[1].text
AT_ONCE = replace(FULL, seconds=0.0)  # the minimum of repeats
POINTS = (("dflash", "total"), ("ddtree", "total"), ("routed", "total"), ("merged", "total"), ("merged", "each"),
          ("joint", "total"))


def finished(method: str, budget: int, sampling: Sampling = GREEDY, **changes: object) -> Trace:
    request = PromptRequest(PROMPT, method=method, budget=budget, max_tokens=16, sampling=sampling,
                            **changes)  # type: ignore[arg-type]
    return trace_from_lines(demo_live().run(request))


def lengths(trace: Trace) -> tuple[int, ...]:
    return tuple(len(entry.round.acceptance.keep) for entry in trace.entries)


@pytest.mark.parametrize(("sampling", "budgets"), [(GREEDY, (8, 128)), (Sampling(0.8, 0, 0.95, 5), (32,))])
def test_forecast_lengths_equal_those_of_real_runs(sampling: Sampling, budgets: tuple[int, ...]) -> None:
    result = what_if(demo_live(), text_of_run(finished("ddtree", 64, sampling)), budgets)
    assert result.departures == 0 and result.cost is None and result.best is None
    for method, split in POINTS:
        forecasts = result.forecasts_for(Setting(method, split=split, temperature=sampling.temperature).curve)
        assert forecasts
        for forecast in forecasts:
            real = finished(method, forecast.setting.budget, sampling, split=split)
            assert forecast.lengths == lengths(real), (method, split, forecast.setting.budget)
            assert forecast.rows == tuple(len(entry.round.tree) for entry in real.entries)


def test_methods_with_budget_dependent_drafters_are_left_out() -> None:
    text, rig = text_of_run(finished("ddtree", 8)), demo_rig()
    mixed_kinds = replace(rig, card=rig.card.model_copy(update={"defaults": {1: ("all",), 2: ("math", "ngram")}}))
    result = what_if(mixed_kinds, text, (8,))
    assert {forecast.setting.method for forecast in result.forecasts} == {"autoregressive", "dflash", "ddtree"}
    with pytest.raises(RequestError, match="ngram"):
        what_if(mixed_kinds, text, (8,), ("routed",))


def test_a_recorded_run_is_forecast_with_its_own_drafters() -> None:
    trace = finished("ddtree", 16, drafters=("code",))
    result = what_if(demo_live(), text_of_run(loads(dumps(trace))), (16,), ("ddtree",))
    assert [forecast.lengths for forecast in result.forecasts] == [lengths(trace)]


def test_invalid_questions_are_refused() -> None:
    rig, text = demo_rig(), text_of_run(finished("ddtree", 8))
    strange = replace(text, token_ids=tuple((token + 7) % 1000 for token in text.token_ids))
    for bad, budgets, methods, named in (
            (replace(text, token_ids=()), (8,), (), "token"),
            (replace(text, token_ids=(10**6,)), (8,), (), "1000000"), (strange, (8,), (), "weights"),
            (text, (-1,), (), "-1"), (text, (), (), "budget"), (text, (8,), ("nanogpt",), "nanogpt"),
            (text, (8,), ("magic",), "'magic'")):
        with pytest.raises(RequestError, match=named):
            what_if(rig, bad, budgets, methods)


def test_the_cost_curve_is_measured_and_kept() -> None:
    curve = demo_live().costs.measure(CostCase(64, Sampling()), AT_ONCE, (1, 9, 129))
    assert curve.rows == (1, 9, 129) and curve.repeats == MIN_REPEATS and curve.context == 64
    assert all(low <= middle <= high for low, middle, high in zip(
        curve.verify_low_ms, curve.verify_ms, curve.verify_high_ms, strict=True))
    assert 0 < curve.verify_ms[0] < curve.verify_ms[2] and min(curve.draft_ms) > 0 and curve.plain_ms > 0
    assert [context_bucket(context, 1024) for context in (1, 64, 90, 91, 300)] == [64, 64, 64, 128, 256]
    assert context_bucket(1020, 1024) < 1000 and context_bucket(1, 40) >= 1
    tree = mock_tree(5, 129)
    assert len(tree) == 129 and 15 <= depths(tree.parents).max() <= 20


def test_a_mock_round_verifies_the_timed_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    verified, verify = list[int](), TorchTarget.verify_batch

    def noted(target: TorchTarget, forks: Sequence[TorchTarget], packed: Sequence[PackedTree]) -> list[Verification]:
        verified.extend(len(tree.tokens) for tree in packed)
        return verify(target, forks, packed)

    monkeypatch.setattr(TorchTarget, "verify_batch", noted)
    live = demo_live()
    case, sizes = CostCase(64, Sampling()), [9, 1, 33]
    assert [size for size, _ in mock_rounds(live.target, live.drafters["math"], case, sizes)] == verified == sizes


@pytest.mark.usefixtures("quick_curves")
def test_what_if_of_an_adaptive_run_has_auto_among_its_settings() -> None:
    live = demo_live()
    book = live.costs  # one measurement for the complete test
    trace = trace_from_lines(live.run(PromptRequest(PROMPT, method="joint", budget=64, max_tokens=48, pace="auto")))
    assert trace.header.request.pace == "auto" and loads(dumps(trace)).header.request.pace == "auto"
    assert all(1 <= len(entry.round.tree) <= 65 for entry in trace.entries)
    curve = book.curve(trace.header.request.max_tokens // 2 + len(trace.header.request.prompt_ids), Sampling())
    result = what_if(demo_live(), text_of_run(trace), (8, 32), ("joint", "autoregressive"), curve)
    assert [(forecast.setting.method, forecast.setting.pace) for forecast in result.forecasts] == [
        ("joint", "fixed"), ("joint", "fixed"), ("joint", "auto"), ("autoregressive", "fixed")]
    assert all(forecast.predicted_tokens_per_second > 0 for forecast in result.forecasts)
    assert result.best is not None or result.withheld, "unless the machine was too busy for a cost curve"


def test_a_waiting_run_uses_a_curve_of_a_similar_length(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measured(_: CostCurves, case: CostCase, effort: Effort, **_more: object) -> CostCurve:
        asked.append((case.context, case.sampling.temperature, effort))
        return replace(CURVE, context=case.context, sampling=case.sampling_mode)

    monkeypatch.setattr(CostCurves, "measure", measured)
    book, warm = demo_live().costs, Sampling(temperature=0.7, seed=3)
    assert [book.curve(context, Sampling(), QUICK).context for context in (60, 100, 250)] == [64, 64, 64]
    assert [book.curve(context, warm, QUICK).context for context in (100, 400, 60)] == [128, 128, 128]
    assert book.curve(260, replace(warm, temperature=0.9), QUICK).context == 128
    assert asked == [(64, 0.0, QUICK), (128, 0.7, QUICK)]
    assert book.curve(250, Sampling()).context == 256 and asked[-1] == (256, 0.0, FULL)
    assert book.curve(250, Sampling(), QUICK).context == 256 and len(asked) == 3
    assert book.curve(250, Sampling(), QUICK, again=True).context == 256 and asked[3:] == [(256, 0.0, QUICK)]
    known = book.nearest(250)
    monkeypatch.setattr(CostCurves, "measure", Mock(side_effect=CancellationError))
    with pytest.raises(CancellationError):
        book.curve(250, Sampling(), QUICK, again=True)
    assert book.curve(250, Sampling(), QUICK) is known, "a cancelled measurement replaces no curve"


def test_one_delayed_pass_does_not_end_a_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    delayed = {8: 500.0}

    def rounds(_target: object, _drafter: object, _case: object, sizes: Sequence[int]
               ) -> Generator[tuple[int, tuple[float, float, float]], None, None]:
        for size in sizes:
            yield size, (0.0, delayed.pop(size, 5.0 + size / 4), 0.0)

    monkeypatch.setattr("engine.serving.cost.mock_rounds", rounds)
    curve = demo_live().costs.measure(CostCase(64, Sampling()), replace(QUICK, seconds=0.0), (1, 8, 12, 16))
    assert curve.rows == (1, 8, 12, 16)


def test_a_quick_curve_ends_at_expensive_passes() -> None:
    quick = demo_live().costs.measure(CostCase(64, Sampling()), replace(QUICK, seconds=0.0))
    assert quick.rows[0] == 1 and len(quick.rows) > 2 and quick.rows[-1] < 1025 and quick.plain_ms > 0
