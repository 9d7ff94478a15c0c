"""A recorded run at other node budgets: its drafts replayed, and the curve that comes of them."""

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.errors import RequestError
from engine.lab.redraft import Redrafting
from engine.trace import Trace, committed_ids, tau
from explorer.budgets import Budgets
from tests.explorer.scripted import ScriptedSource, scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import answering


def asked(traces: dict[str, Trace], call: int, **wanted: Any) -> Any:
    source = ScriptedSource()
    return Budgets(answering(source, ScriptedInstruments()), traces.__getitem__).functions()[call](wanted)


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
    assert np.isnan(round_.verification.offered).any()  # of nodes that the run did not verify, nothing is known
    assert (round_.verification.choice[round_.acceptance.keep] >= 0).all()


def test_the_curve_goes_through_the_run_and_rises_with_the_budget() -> None:
    trace = scripted_trace("ddtree", 32)
    view = asked({"run": trace}, 0, run="run")
    at = view["budgets"].index(32)
    assert view["tau"]["mean"][at] == pytest.approx(tau(trace.rounds), rel=0.1)
    assert view["tau"]["mean"] == sorted(view["tau"]["mean"])
    assert all(low <= mean <= high for low, mean, high in zip(*(view["tau"][side] for side in ("low", "mean", "high")),
                                                              strict=True))
    assert min(view["speed"]["mean"]) > 0 and view["plain"] > 0 and view["withheld"] == ""


def test_the_speed_curve_is_scaled_to_the_measurement_or_withheld_with_it() -> None:
    trace, measured = scripted_trace("ddtree", 32), dict[str, Any]()
    budgets = Budgets(answering(ScriptedSource(), ScriptedInstruments()), {"run": trace}.__getitem__,
                      lambda run: measured)
    alone = budgets.curve({"run": "run"})
    measured |= {"withheld": "", "plain_speed": "12.5"}
    beside = budgets.curve({"run": "run"})
    assert beside["plain"] == 12.5 and beside["tau"] == alone["tau"]
    gains = [np.asarray(view["speed"]["mean"]) / view["plain"] for view in (alone, beside) if view["speed"]]
    np.testing.assert_allclose(gains[0], gains[1], rtol=1e-3)
    measured["withheld"] = "It was busy."
    withheld = budgets.curve({"run": "run"})
    assert (withheld["speed"], withheld["plain"], withheld["withheld"]) == (None, 0.0, "It was busy.")
    assert withheld["tau"] == alone["tau"]


def test_a_run_in_progress_is_read_a_few_rounds_at_a_time() -> None:
    trace = scripted_trace("ddtree", 2)
    budgets = Budgets(answering(ScriptedSource(), ScriptedInstruments()), {"run": trace}.__getitem__)
    counts = [budgets.curve({"run": "run", "live": True})["rounds"] for _ in range(3)]
    assert counts[0] < counts[1] < counts[2] <= len(trace.entries)
    assert budgets.curve({"run": "run"})["rounds"] > counts[2]


def test_a_method_that_cannot_be_redrafted_is_refused() -> None:
    with pytest.raises(RequestError, match="autoregressive"):
        Redrafting(scripted_trace("autoregressive", 0))
    with pytest.raises(RequestError, match="nanogpt|text"):
        Redrafting(scripted_trace("nanogpt", 8))
    trace = scripted_trace("ddtree", 8)
    assert "from 0 to 4096" in asked({"run": trace}, 1, run="run", round=0, budget=10**6)["error"]
    line = json.loads(asked({"run": trace}, 1, run="run", round=0, budget=8))
    assert line["round"]["tree"]["tokens"]["shape"] == [9]
    assert len(committed_ids(trace.rounds)) > 8
