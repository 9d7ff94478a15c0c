"""Runs of the demo rig at their own pace, at once: each text is the run's own, rows are shared out, and nobody waits
for a measurement that he did not ask for."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from engine.budget.auto import AutoBudget
from engine.records import PromptRequest, Sampling
from engine.serving.cost import CostBook, CostCase, Effort
from engine.serving.rig import Rig
from engine.trace import Entry, committed_ids
from tests.engine.budget.test_auto import LONE
from tests.engine.demo import demo_live

TOKENS = 60
ASKS = (
    PromptRequest("Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?",
                  method="ddtree",
        max_tokens=TOKENS, pace="auto"),
    PromptRequest("Why is the sky wide? Tell me a story of a fox.", method="ddtree", max_tokens=TOKENS, pace="auto"),
    PromptRequest("Write a Python function that doubles every number of a list.", method="merged", max_tokens=TOKENS,
                  pace="auto",
        sampling=Sampling(0.8, seed=3)),
    PromptRequest("What is a node budget?", method="joint", budget=24, max_tokens=TOKENS),
    PromptRequest("What is a draft tree?", method="nanogpt", budget=16, max_tokens=TOKENS, pace="auto"),
)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many runs were there when a curve was measured; none is measured in truth."""
    found: list[int] = []

    def measure(_: CostBook, case: CostCase, __: Effort) -> object:
        found.append(case.requests)
        return replace(LONE, context=case.context, requests=case.requests, sampling=case.drawing)
    monkeypatch.setattr(CostBook, "measure", measure)
    yield found


def lines_of(live: Rig, asks: Sequence[PromptRequest]) -> list[list[Entry]]:
    """All at once; nobody goes on before all have begun."""
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


def test_texts_are_those_of_lone_runs_and_rows_are_shared_out(measured: list[int]) -> None:
    alone = [lines_of(demo_live(), [ask])[0] for ask in ASKS]
    live = demo_live(concurrent=True)
    lines_of(live, ASKS[:1])
    assert len(measured) == len(ASKS), "each at its own pace when it was alone"
    concurrency = lines_of(live, ASKS)
    assert [text(each) for each in concurrency] == [text(each) for each in alone]
    assert len(measured) == len(ASKS), "nobody measures beside others"
    blocks = [block for entry in concurrency[0] if entry.shared_pass for block in entry.shared_pass.blocks]
    assert {block.seat for block in blocks if block.pools_rows} == {
        entry.shared_pass.own for each in concurrency[:3] for entry in each if entry.shared_pass}
    full = [len(entry.round.tree) for entry in concurrency[3] if entry.round.drafts]
    assert set(full) == {25}, "a budget of one's own stays whole"


def test_a_lone_run_where_runs_may_share_is_as_one_where_they_may_not(
        measured: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AutoBudget, "took", lambda *_: None)  # the clock differs from run to run
    rows = []
    for concurrent in (False, True):
        live = demo_live(concurrent=concurrent)
        rows.append([len(entry.round.tree) for ask in ASKS[:3] for entry in lines_of(live, [ask])[0]])
        assert not any(block.pools_rows for entry in lines_of(live, ASKS[:1])[0] if entry.shared_pass
                       for block in entry.shared_pass.blocks)
    assert rows[0] == rows[1] and len(set(rows[0])) > 2 and measured


@pytest.mark.parametrize("concurrent", [False, True])
def test_rounds_are_learnt_from_but_where_a_text_would_follow_the_clock(
        measured: list[int], monkeypatch: pytest.MonkeyPatch, concurrent: bool) -> None:
    told: list[float] = []
    monkeypatch.setattr(AutoBudget, "took", lambda _, seconds: told.append(sum(seconds.values())))
    live = demo_live(concurrent=concurrent)
    for ask in (ASKS[0], ASKS[4]):
        rounds = lines_of(live, [ask])[0]
        assert len(told) == (len(rounds) if ask.method == "ddtree" else 0)
        with live.in_turns([ask]) as (bare,):
            seconds = [sum(made.seconds.values()) for made in bare]
        if ask.method == "ddtree":
            assert told[-len(seconds):] == seconds
        told.clear()


def test_runs_that_begin_together_begin_without_a_measurement(measured: list[int]) -> None:
    live = demo_live(concurrent=True)
    concurrency = lines_of(live, ASKS[:2])
    assert measured == [] and all(text(each) for each in concurrency)
    lines_of(live, ASKS[:1])
    assert measured == [1], "the next one alone measures"


def test_what_is_kept_of_costs_does_not_grow_with_what_people_ask_for(measured: list[int]) -> None:
    book = demo_live().costs
    for place in range(40):
        book.curve(100 + place % 9, Sampling(0.02 * place, top_p=1 - 0.02 * (place % 3), seed=place))
    assert len(measured) == len(book._curves) == 3, "greedy, sampled, cut"
    book.curve(100, Sampling(0.5), 2)
    book.curve(300, Sampling(0.5))
    assert len(measured) == 5
