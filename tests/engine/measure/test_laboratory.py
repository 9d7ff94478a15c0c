"""The live rig as a laboratory: it measures what a run is, alone, and leaves the rig free."""

from __future__ import annotations

import threading
import time

import pytest

from engine.errors import RequestError
from engine.lab.reading import reading_of
from engine.lab.settings import Company
from engine.measure.instruments import LiveLaboratory
from engine.records import Ask, Sampling
from engine.trace import gather
from tests.engine.demo import demo_live

PROMPT = "Lena has 4 bags with 7 marbles in each bag. How many marbles does she have?"


@pytest.fixture(scope="module")
def laboratory() -> LiveLaboratory:
    return LiveLaboratory(demo_live())


@pytest.mark.parametrize("ask", [
    Ask(PROMPT, method="joint", budget=24,
        max_tokens=40), Ask(PROMPT, method="merged", budget=16, max_tokens=30, sampling=Sampling(0.8, seed=4),
                            split="each"),
    Ask(PROMPT, method="autoregressive", budget=0, max_tokens=12)], ids=lambda ask: ask.method)
def test_a_reading_is_what_the_trace_of_the_same_run_says(laboratory: LiveLaboratory, ask: Ask) -> None:
    found, traced = laboratory.measure(ask), reading_of(gather(laboratory.live.run(ask)))
    assert found.token_ids
    for name in ("token_ids", "lengths", "rows", "expected", "gaps", "acceptance", "bonus", "cut"):
        assert getattr(found, name) == getattr(traced, name)
    assert found.prefill_seconds > 0
    assert found.seconds == pytest.approx(sum(found.stage_seconds.values()), rel=0.2)
    assert laboratory.pieces(found.token_ids).keys() == set(found.token_ids)


@pytest.mark.parametrize(("method", "budget", "pace"), [
    ("joint", 24, "fixed"), ("autoregressive", 0, "fixed"), ("ddtree", 64, "auto")])
def test_a_run_among_others_writes_its_own_text_and_counts_all(
        laboratory: LiveLaboratory, method: str, budget: int, pace: str) -> None:
    ask = Ask(PROMPT, method=method, budget=budget, max_tokens=16, pace=pace)
    others = tuple(Ask(f"What is {place} + 5?", method=method, budget=budget, max_tokens=4 + place,
                       pace=pace) for place in range(2))
    alone, among = laboratory.measure(ask), laboratory.measure_among(ask, Company(others, 3))
    assert among.token_ids == alone.token_ids
    assert among.lengths == alone.lengths or pace == "auto"  # which goes by times
    assert len(among.committed) == among.rounds and all(
        count >= length + 2 for count, length in zip(among.committed, among.lengths, strict=True))
    assert among.total_tokens_per_second > 1.5 * among.tokens_per_second
    assert among.seconds == pytest.approx(sum(among.stage_seconds.values()), rel=0.3)
    assert among.prefill_seconds > 0


def test_what_cannot_stand_beside_it_is_a_sentence(laboratory: LiveLaboratory) -> None:
    with pytest.raises(RequestError, match="No other prompt of the set can stand beside this one"):
        laboratory.measure_among(Ask(PROMPT, method="ddtree", budget=8,
                                     max_tokens=4), Company((Ask("word " * 5000, method="ddtree", budget=8,
                                                                 max_tokens=4),), 2))
    assert laboratory.measure(Ask(PROMPT, method="dflash", budget=8, max_tokens=4)).token_ids


def test_the_cost_of_rounds_is_measured_by_requests(laboratory: LiveLaboratory) -> None:
    ask = Ask(PROMPT, method="ddtree", budget=8, max_tokens=16)
    one, two = (laboratory.load_cost(ask, count) for count in (1, 2))
    assert (one.requests, two.requests) == (1, 2) and two.rows[0] == 2
    assert laboratory.load_cost(ask, 2) is two


def test_a_measurement_waits_for_the_rig_and_does_not_count_the_waiting(laboratory: LiveLaboratory) -> None:
    other = laboratory.live.run(Ask(PROMPT, method="ddtree", budget=8, max_tokens=20))
    next(other)
    found = []
    worker = threading.Thread(target=lambda: found.append(laboratory.measure(Ask(PROMPT, method="autoregressive",
                                                                                 budget=0, max_tokens=2))))
    worker.start()
    time.sleep(1.5)
    assert not found
    other.close()
    worker.join(60)
    assert found[0].prefill_seconds + found[0].seconds < 1.5


def test_what_cannot_be_served_leaves_the_rig_free(laboratory: LiveLaboratory) -> None:
    for ask in (Ask(" "), Ask("word " * 5000), Ask(PROMPT, drafters=("nobody",)), Ask(PROMPT, budget=-1)):
        with pytest.raises(RequestError):
            laboratory.measure(ask)
    assert laboratory.measure(Ask(PROMPT, method="dflash", budget=8, max_tokens=4)).token_ids


def test_the_conditions_name_the_rig_and_what_it_runs_on(laboratory: LiveLaboratory) -> None:
    conditions = laboratory.conditions
    assert (conditions.rig, conditions.dtype) == ("demo rig", "float32")
    assert conditions.hardware
    assert {"python", "torch", "transformers"} <= conditions.versions.keys()
    assert {"autoregressive", "dflash", "ddtree", "routed", "merged", "joint"} <= set(laboratory.methods)
