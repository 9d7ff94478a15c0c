"""Concurrent adaptive runs of the demo rig: each text is the run's own, rows are shared, and no run waits for a cost
measurement that it did not ask for."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from engine.decoding.methods import METHODS
from engine.records import PromptRequest, Sampling
from engine.serving.cost import CostCase, CostCurves, Effort
from engine.serving.rig import Rig
from engine.trace import Entry, committed_ids
from tests.engine.budget.test_auto import SINGLE_RUN_CURVE
from tests.engine.demo import demo_live

AUTO_ASK = PromptRequest(
    "Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?", method="ddtree",
    max_tokens=24, pace="auto")
ASKS = (
    AUTO_ASK, replace(AUTO_ASK, prompt="Why is the sky wide? Tell me a story of a fox."),
    replace(AUTO_ASK, prompt="Write a Python function that doubles every number of a list.", method="merged",
            sampling=Sampling(0.8, seed=3)),
    replace(AUTO_ASK, prompt="What is a node budget?", method="joint", budget=24, pace="fixed"),
    replace(AUTO_ASK, prompt="What is a draft tree?", method="nanogpt", budget=16),
    replace(AUTO_ASK, prompt="Which tree is widest?", method="routed"),
    replace(AUTO_ASK, prompt="Which tree is deepest?", method="expand"),
)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[CostCase]:
    """Provide the list of measured cost cases; a fixed curve replaces each measurement."""
    cases: list[CostCase] = []

    def measure(_: CostCurves, case: CostCase, __: Effort, **_more: object) -> object:
        cases.append(case)
        return replace(SINGLE_RUN_CURVE, context=case.context, sampling=case.sampling_mode)
    monkeypatch.setattr(CostCurves, "measure", measure)
    return cases


def answers(live: Rig, *asks: PromptRequest) -> list[list[Entry]]:
    """Return the entries of concurrent runs, each of which waits until all have begun."""
    ready = threading.Barrier(len(asks))

    def act(ask: PromptRequest) -> list[Entry]:
        lines = live.run(ask)
        next(lines)
        ready.wait(60)
        return [line for line in lines if isinstance(line, Entry)]
    with ThreadPoolExecutor(len(asks)) as readers:
        return list(readers.map(act, asks))


def text(entries: Sequence[Entry]) -> list[int]:
    return committed_ids(entry.round for entry in entries)


def test_texts_equal_those_of_lone_runs_and_rows_are_shared(measured: list[CostCase]) -> None:
    alone = [text(answers(demo_live(), ask)[0]) for ask in ASKS]
    live = demo_live(concurrent=True)
    answers(live, ASKS[0])
    assert len(measured) == len(ASKS), "each lone run measures once"
    runs = answers(live, *ASKS)
    assert list(map(text, runs)) == alone
    assert len(measured) == len(ASKS), "no run measures while others run"
    shared_passes = [[entry.shared for entry in run if entry.shared] for run in runs]
    pooling = {block.seat for run in shared_passes for shared in run for block in shared.blocks if block.pools_rows}
    follows_text = [run for run, ask in zip(shared_passes, ASKS, strict=True)
                    if ask.pace == "auto" and METHODS[ask.method].follows_text]
    assert len(follows_text) == 5 and pooling == {shared.own for run in follows_text for shared in run}
    assert {len(entry.round.tree) for entry in runs[3] if entry.round.drafts} == {25}, "a fixed budget is not cut"


def test_runs_that_begin_together_do_not_measure_costs(measured: list[CostCase]) -> None:
    live = demo_live(concurrent=True)
    assert all(map(text, answers(live, *ASKS[:2]))) and measured == []
    answers(live, ASKS[0])
    assert len(measured) == 1, "the next lone run measures"


def test_the_number_of_cost_curves_is_bounded(measured: list[CostCase]) -> None:
    book = demo_live().costs
    for number in range(40):
        book.curve(100 + number % 9, Sampling(0.02 * number, top_p=1 - 0.02 * (number % 3), seed=number))
    assert len(measured) == 3, "one curve each for greedy, sampled and cut"
    book.curve(300, Sampling(0.5))
    assert len(measured) == 4
