"""What a run would have come to at other budgets: against runs of the script at those budgets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.errors import RequestError
from engine.trace import Trace, committed_ids, tau
from explorer.budgets import Budgets, redrafted, redrafting
from tests.explorer.scripted import ScriptedSource, scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import answering


def asked(traces: dict[str, Trace], call: int, **wanted: Any) -> Any:
    source = ScriptedSource()
    return Budgets(answering(source, ScriptedInstruments()), traces.__getitem__).functions()[call](wanted)


@pytest.mark.parametrize("method", ["ddtree", "joint", "merged", "routed", "dflash"])
def test_at_its_own_budget_a_run_is_what_it_was(method: str) -> None:
    trace = scripted_trace(method, 16)
    drafts = redrafting(trace)
    for number, entry in enumerate(trace.entries[:-1]):
        made = redrafted(drafts, number, 16)
        np.testing.assert_array_equal(made.tree.tokens, entry.round.tree.tokens)
        np.testing.assert_array_equal(made.committed, entry.round.committed)
        assert made.acceptance.bonus == entry.round.acceptance.bonus
        np.testing.assert_array_equal(made.verification.offered, entry.round.verification.offered)


def test_another_budget_keeps_what_a_run_at_it_keeps_from_the_same_place() -> None:
    small, large = scripted_trace("ddtree", 4), scripted_trace("ddtree", 64)
    made, real = redrafted(redrafting(small), 0, 64), large.entries[0].round
    np.testing.assert_array_equal(made.committed, real.committed)
    assert made.acceptance.bonus == real.acceptance.bonus and len(made.tree) > len(small.entries[0].round.tree)
    assert np.isnan(made.verification.offered).any()  # of nodes that the run did not verify, nothing is known
    assert (made.verification.choice[made.acceptance.keep] >= 0).all()


def test_the_curve_goes_through_the_run_and_rises_with_the_budget() -> None:
    trace = scripted_trace("ddtree", 32)
    view = asked({"run": trace}, 0, run="run")
    at = view["budgets"].index(32)
    assert view["tau"]["mean"][at] == pytest.approx(tau([entry.round for entry in trace.entries]), rel=0.1)
    assert view["tau"]["mean"] == sorted(view["tau"]["mean"])
    assert all(low <= mean <= high for low, mean, high in zip(*(view["tau"][side] for side in ("low", "mean", "high")),
                                                              strict=True))
    assert min(view["speed"]["mean"]) > 0 and view["plain"] > 0 and view["withheld"] == ""


def test_a_run_in_progress_is_read_a_few_rounds_at_a_time() -> None:
    trace = scripted_trace("ddtree", 2)
    budgets = Budgets(answering(ScriptedSource(), ScriptedInstruments()), {"run": trace}.__getitem__)
    counts = [budgets.curve({"run": "run", "live": True})["rounds"] for _ in range(3)]
    assert counts[0] < counts[1] < counts[2] <= len(trace.entries)
    assert budgets.curve({"run": "run"})["rounds"] > counts[2]


def test_what_cannot_be_known_is_a_sentence() -> None:
    with pytest.raises(RequestError, match="autoregressive would have kept"):
        redrafting(scripted_trace("autoregressive", 0))
    with pytest.raises(RequestError, match="follows the text"):
        redrafting(scripted_trace("nanogpt", 8))
    trace = scripted_trace("ddtree", 8)
    assert "from 0 to 4096" in asked({"run": trace}, 1, run="run", round=0, budget=10**6)["error"]
    assert asked({"run": trace}, 1, run="run", round=0, budget=8)["tree"]["tokens"]["shape"] == [9]
    assert len(committed_ids(entry.round for entry in trace.entries)) > 8
