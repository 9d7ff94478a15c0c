"""Several requests at once: each text is the request's own, whoever runs beside it, ends, or is dropped."""

from dataclasses import replace

import pytest

from engine.decoding.loop import BatchRequest, RequestBatch, decode_batch
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.records import Request, Round, Sampling
from tests.engine.material import GREEDY, WARM, drafters_of, run, text
from tests.engine.toy import ToyTarget

PROMPTS = ((1, 2, 3, 1, 2), (4,), (0, 0, 7, 5, 1, 1, 2, 6, 3), (2, 6))


def mixture(sampling: Sampling) -> list[Request]:
    """Every method with prompts, budgets, lengths and seeds of all kinds."""
    return [Request(PROMPTS[place % 4], method=method, budget=(0, 7, 31, 64)[place % 4],
                    max_tokens=20 + 9 * (place % 5),
                    sampling=replace(sampling, seed=place),
                    stop_ids=frozenset([place % 8]) if place % 3 else frozenset())
            for place, method in enumerate([*METHODS, *METHODS])]


def texts(made: list[tuple[int, Round]], count: int) -> list[list[int]]:
    return [text([each for number, each in made if number == place]) for place in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 2, 4, 8, 100])
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])
def test_every_text_is_that_of_the_request_alone(sampling: Sampling, concurrency: int) -> None:
    target, requests = ToyTarget(seed=2), mixture(sampling)
    alone = [text(run(request, target, drafters_of(request.method, target))) for request in requests]
    asked = [BatchRequest(request, drafters_of(request.method, target)) for request in requests]
    assert texts(list(decode_batch(asked, target, concurrency)), len(requests)) == alone
    assert len(set(map(tuple, alone))) > 10


def test_who_ends_makes_room_at_the_next_round() -> None:
    target = ToyTarget(seed=2)
    lengths = (3, 30, 5, 4)
    asked = [BatchRequest(Request(PROMPTS[0], method="autoregressive", budget=0, max_tokens=length,
                                  sampling=GREEDY), []) for length in lengths]
    order = [number for number, _ in decode_batch(asked, target, 2)]
    assert order[:6] == [0, 1] * 3 and order[6:8] == [1, 2]
    assert [order.count(number) for number in range(4)] == list(lengths)


def test_a_dropped_request_disturbs_no_other() -> None:
    target, request = ToyTarget(seed=2), Request(PROMPTS[0], method="ddtree", budget=15, max_tokens=60, sampling=GREEDY)
    alone = text(run(request, target, drafters_of("ddtree", target)))
    batch = RequestBatch(target)
    kept, dropped = (batch.admit(BatchRequest(request, drafters_of("ddtree", target))) for _ in range(2))
    found = [made for _ in range(3) for number, made in batch.round() if number == kept]
    batch.drop(dropped)
    batch.drop(dropped)
    while len(batch):
        found += [made for number, made in batch.round() if number == kept]
    assert text(found) == alone


def test_a_request_that_cannot_be_served_leaves_the_others() -> None:
    target = ToyTarget(seed=2, context_limit=40)
    batch = RequestBatch(target)
    number = batch.admit(BatchRequest(Request(PROMPTS[0], method="autoregressive", budget=0, max_tokens=5,
                                              sampling=GREEDY), []))
    for wrong in (Request(()), Request(PROMPTS[0], method="ddtree"), Request((1,) * 40)):
        with pytest.raises(RequestError):
            batch.admit(BatchRequest(wrong, []))
    assert [each for each, _ in batch.round()] == [number]


def test_an_empty_batch_has_no_rounds_and_a_prompt_that_ends_at_once_has_none() -> None:
    target = ToyTarget(seed=2)
    assert RequestBatch(target).round() == []
    root, _ = target.prefill(PROMPTS[0], 1, GREEDY)
    batch = RequestBatch(target)
    batch.admit(BatchRequest(Request(PROMPTS[0], method="autoregressive", budget=0, max_tokens=5, sampling=GREEDY,
                                     stop_ids=frozenset([root])), []))
    assert len(batch) == 0
