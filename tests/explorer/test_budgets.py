"""A recorded run at other node budgets: its drafts replayed, and the resulting curve."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.budget.cost import CostCurve
from engine.errors import RequestError
from engine.lab.redraft import Redrafting, modelled_speed
from engine.trace import MeasuredBudget, Trace, committed_ids, tau
from explorer.budgets import Budgets
from tests.explorer.scripted import CURVE, ScriptedSource, scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import current_rig


def call_curve(traces: dict[str, Trace], call: int, **wanted: Any) -> Any:
    source = ScriptedSource()
    return Budgets(current_rig(source, ScriptedInstruments()), traces.__getitem__).functions()[call](wanted)


@pytest.mark.parametrize("method", ["ddtree", "joint", "merged", "routed", "dflash"])
def test_redrafting_at_the_same_budget_reproduces_the_run(method: str) -> None:
    trace = scripted_trace(method, 16)
    alike = replace(trace, header=replace(trace.header, drafters=("a",) * len(trace.header.drafters)))
    for drafts, entry in itertools.product((Redrafting(trace), Redrafting(alike)), trace.entries[:-1]):
        round_ = drafts.round_at(entry.round, 16)
        np.testing.assert_array_equal(round_.tree.tokens, entry.round.tree.tokens)
        np.testing.assert_array_equal(round_.committed, entry.round.committed)
        assert round_.acceptance.bonus == entry.round.acceptance.bonus
        np.testing.assert_array_equal(round_.verification.offered, entry.round.verification.offered)


def test_redrafting_at_another_budget_keeps_what_a_run_at_it_keeps() -> None:
    small, large = scripted_trace("ddtree", 4), scripted_trace("ddtree", 64)
    round_, real = Redrafting(small).round_at(small.entries[0].round, 64), large.entries[0].round
    np.testing.assert_array_equal(round_.committed, real.committed)
    assert round_.acceptance.bonus == real.acceptance.bonus and len(round_.tree) > len(small.entries[0].round.tree)
    assert np.isnan(round_.verification.offered).any()  # unknown for nodes that the run did not verify
    assert (round_.verification.choice[round_.acceptance.keep] >= 0).all()


def test_the_curve_passes_through_the_run_and_rises_with_the_budget() -> None:
    trace = scripted_trace("ddtree", 32)
    view = call_curve({"run": trace}, 0, run="run")
    at = view["budgets"].index(32)
    assert view["tau"]["mean"][at] == pytest.approx(tau(trace.rounds), rel=0.1)
    assert view["tau"]["mean"] == sorted(view["tau"]["mean"])
    assert all(low <= mean <= high for low, mean, high in zip(*(view["tau"][side] for side in ("low", "mean", "high")),
                                                              strict=True))
    assert min(view["speed"]["mean"]) > 0 and view["plain"] > 0 and view["withheld"] == ""


def test_only_budgets_that_the_recorded_candidates_fill_are_predicted() -> None:
    trace = scripted_trace("dflash", 2)
    view = call_curve({"run": trace}, 0, run="run")
    assert view["candidates"] == max(draft.depth for draft in trace.entries[0].round.drafts), "a chain has no more"
    assert max(view["budgets"]) == view["candidates"]
    assert len(view["tau"]["mean"]) == len(view["speed"]["mean"]) == len(view["budgets"])


def forecast_with(trace: Trace, cost: CostCurve, measured: dict[str, Any]) -> Any:
    """Return the forecast of a run with this cost curve and these speeds measured beside plain decoding."""
    instruments = ScriptedInstruments()
    instruments.cost = cost
    return Budgets(current_rig(ScriptedSource(), instruments), {"run": trace}.__getitem__, lambda run: measured).curve(
        {"run": "run"})


def curve_of(passes: Sequence[float], slower: float = 1.0, spread: float = 0.1) -> CostCurve:
    """Return a curve of these passes on a machine that other programs slow down by a factor."""
    low, middle, high = (tuple(slower * share * ms for ms in passes) for share in (1 - spread, 1.0, 1 + spread))
    return replace(CURVE, verify_ms=middle, verify_low_ms=low, verify_high_ms=high, overhead_ms=slower * 0.5,
                   plain_ms=slower * (passes[0] + 0.04), draft_ms=(slower * 2.0,) * len(passes))


AVX2 = (10.0, 20.0, 50.0, 90.0, 170.0, 330.0, 650.0, 1290.0, 2570.0)  # ms for each of CURVE.rows: proportional
AMX = (10.0, 11.0, 11.0, 11.0, 12.0, 14.0, 22.0, 40.0, 80.0)  # flat, then proportional
DISTURBED = replace(curve_of(AMX), verify_ms=(10.0, 11.0, 30.0, *AMX[3:]), verify_high_ms=(11.0, 12.0, 60.0, *AMX[3:]))


@pytest.mark.parametrize(("cost", "quiet"), [
    (curve_of(AMX), curve_of(AMX)), (curve_of(AVX2), curve_of(AVX2)), (curve_of(AMX, 3.0), curve_of(AMX)),
    (curve_of(AVX2, 3.0), curve_of(AVX2)), (DISTURBED, curve_of(AMX))],
    ids=["AMX", "AVX2", "AMX, all disturbed", "AVX2, all disturbed", "AMX, one size disturbed"])
@pytest.mark.parametrize("beside_plain", [True, False])
def test_predicted_speeds_pass_through_the_measured_one_however_busy_the_machine_was(
        cost: CostCurve, quiet: CostCurve, beside_plain: bool) -> None:
    trace = scripted_trace("ddtree", 32)
    own = modelled_speed(trace, quiet)
    assert own
    speed, plain = 5 * own.predicted, 5 * own.predicted_plain
    measured = {"withheld": "", "speed": f"{speed}", "plain_speed": f"{plain}", "ratio": speed / plain}
    view, expected = (forecast_with(trace, curve, measured if beside_plain else {}) for curve in (cost, quiet))
    at = view["budgets"].index(32)
    tau_there, shown = view["tau"]["mean"][at], speed if beside_plain else own.measured
    assert view["speed"]["mean"][at] / tau_there == pytest.approx(shown / tau(trace.rounds), rel=0.01)
    assert view["plain"] == pytest.approx(plain if beside_plain else shown / speed * plain, rel=0.01)
    np.testing.assert_allclose(view["speed"]["mean"], expected["speed"]["mean"], rtol=0.02)
    seconds = np.divide(view["tau"]["mean"], view["speed"]["mean"])
    assert (np.diff(seconds) > -1e-5).all(), "more nodes never take less time"


def test_no_speed_is_predicted_if_pass_costs_contradict_the_measured_speeds() -> None:
    trace = scripted_trace("ddtree", 32)
    own = modelled_speed(trace, curve_of(AMX))
    assert own
    ratio = own.predicted / own.predicted_plain
    measured = {"withheld": "", "speed": f"{own.predicted}", "plain_speed": f"{own.predicted_plain}", "ratio": ratio}
    disturbed = replace(curve_of(AMX, 3.0), plain_ms=10.04)
    view = forecast_with(trace, disturbed, measured)
    assert view["speed"] is None and view["tau"] and f"{ratio:.1f} times" in view["withheld"]
    view = forecast_with(trace, replace(curve_of(AMX), plain_ms=300.0), {})
    assert view["speed"] is None and f"{tau(trace.rounds):.1f} times" in view["withheld"], "no tree can be that fast"


def test_a_run_whose_speed_is_withheld_keeps_its_earlier_prediction() -> None:
    trace = scripted_trace("ddtree", 32)
    before, view = (forecast_with(trace, curve_of(AMX), measured) for measured in ({}, {"withheld": "It was busy."}))
    assert before["speed"] and view == {**before, "withheld": "It was busy."}


def test_a_recordings_curve_is_scaled_by_its_measured_plain_speed() -> None:
    trace = scripted_trace("ddtree", 32)
    curve = (MeasuredBudget(4, 2.0, 1.5, 1.4, 1.6), MeasuredBudget(8, 2.5, 1.25, 1.0, 1.5))
    recorded = replace(trace, header=replace(trace.header, curve=curve, recorded="2026-11-26"))
    measured = {"withheld": "", "speed": "30", "plain_speed": "20", "ratio": 1.5}
    shown = forecast_with(recorded, CURVE, measured)["measured"]
    assert (shown["budgets"], shown["tau"]["mean"], shown["plain"]) == ([4, 8], [2.0, 2.5], 20.0)
    assert shown["speed"] == {"mean": [30.0, 25.0], "low": [28.0, 20.0], "high": [32.0, 30.0]}
    assert forecast_with(recorded, CURVE, {"withheld": "It was busy."})["measured"] is None


def test_a_run_in_progress_is_read_a_few_rounds_at_a_time() -> None:
    trace = scripted_trace("ddtree", 2)
    budgets = Budgets(current_rig(ScriptedSource(), ScriptedInstruments()), {"run": trace}.__getitem__)
    counts = [budgets.curve({"run": "run", "live": True})["rounds"] for _ in range(3)]
    assert counts[0] < counts[1] < counts[2] <= len(trace.entries)
    assert budgets.curve({"run": "run"})["rounds"] > counts[2]


def test_a_method_that_cannot_be_redrafted_is_refused() -> None:
    with pytest.raises(RequestError, match="autoregressive"):
        Redrafting(scripted_trace("autoregressive", 0))
    with pytest.raises(RequestError):
        Redrafting(chain := scripted_trace("nanogpt", 8))
    assert Budgets(current_rig(ScriptedSource(), ScriptedInstruments()), lambda run: chain).fastest("run") == 0
    trace = scripted_trace("ddtree", 8)
    assert "from 0 to 4096" in call_curve({"run": trace}, 1, run="run", round=0, budget=10**6)["error"]
    line = json.loads(call_curve({"run": trace}, 1, run="run", round=0, budget=8))
    assert line["round"]["tree"]["tokens"]["shape"] == [9]
    assert len(committed_ids(trace.rounds)) > 8
