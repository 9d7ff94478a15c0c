"""Concurrent requests: each text is the request's alone, whichever others run, end, or are dropped."""

from dataclasses import replace

import pytest

from engine.decoding.loop import BatchRequest, RequestBatch, decode_batch
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.records import Request, Sampling
from tests.engine.material import GREEDY, WARM, drafters_of, run, text
from tests.engine.toy import ToyTarget

PROMPTS = ((1, 2, 3, 1, 2), (4,), (0, 0, 7, 5, 1, 1, 2, 6, 3), (2, 6))
PLAIN = Request(PROMPTS[0], method="autoregressive", budget=0, max_tokens=5)


@pytest.fixture
def target() -> ToyTarget:
    return ToyTarget(seed=2)


def mixture(sampling: Sampling) -> list[Request]:
    """Every method with prompts, budgets, lengths and seeds of all kinds."""
    return [Request(PROMPTS[number % 4], method=method, budget=(0, 7, 31, 64)[number % 4],
                    max_tokens=20 + 9 * (number % 5), sampling=replace(sampling, seed=number),
                    stop_ids=frozenset([number % 8]) if number % 3 else frozenset())
            for number, method in enumerate([*METHODS, *METHODS])]


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 4, 100])
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])
def test_every_text_is_that_of_the_request_alone(target: ToyTarget, sampling: Sampling, concurrency: int) -> None:
    requests = mixture(sampling)
    alone = [text(run(request, target, drafters_of(request.method, target))) for request in requests]
    asked = [BatchRequest(request, drafters_of(request.method, target)) for request in requests]
    rounds = list(decode_batch(asked, target, concurrency))
    assert [text(round_ for number, round_ in rounds if number == wanted) for wanted in range(len(requests))] == alone
    assert len(set(map(tuple, alone))) > 10


def test_who_ends_makes_room_at_the_next_round(target: ToyTarget) -> None:
    lengths = [3, 30, 5, 4]
    asked = [BatchRequest(replace(PLAIN, max_tokens=length), []) for length in lengths]
    order = [number for number, _ in decode_batch(asked, target, 2)]
    assert order[:8] == [0, 1, 0, 1, 0, 1, 1, 2] and [order.count(number) for number in range(4)] == lengths


def test_a_dropped_request_disturbs_no_other(target: ToyTarget) -> None:
    request = Request(PROMPTS[0], method="ddtree", budget=15, max_tokens=60)
    batch = RequestBatch(target)
    kept, dropped = (batch.admit(BatchRequest(request, drafters_of("ddtree", target))) for _ in range(2))
    rounds = [batch.round() for _ in range(3)]
    batch.drop(dropped)
    batch.drop(dropped)
    while len(batch):
        rounds.append(batch.round())
    assert text(round_ for numbered in rounds for number, round_ in numbered if number == kept) == text(
        run(request, target, drafters_of("ddtree", target)))


def test_a_request_that_cannot_be_served_leaves_the_others() -> None:
    batch = RequestBatch(ToyTarget(seed=2, context_limit=40))
    number = batch.admit(BatchRequest(PLAIN, []))
    for wrong in (Request(()), Request(PROMPTS[0], method="ddtree"), Request((1,) * 40)):
        with pytest.raises(RequestError):
            batch.admit(BatchRequest(wrong, []))
    assert [served for served, _ in batch.round()] == [number]


def test_an_empty_batch_has_no_rounds_and_a_prompt_that_ends_at_once_has_none(target: ToyTarget) -> None:
    batch = RequestBatch(target)
    assert batch.round() == []
    root, _ = target.prefill(PROMPTS[0], 1, GREEDY)
    batch.admit(BatchRequest(replace(PLAIN, stop_ids=frozenset([root])), []))
    assert len(batch) == 0
