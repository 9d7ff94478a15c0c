"""Concurrent requests: each text is the request's alone, whichever others run, end, or are dropped."""

from dataclasses import replace

import pytest

from engine.decoding.loop import Run, decode_batch, step
from engine.decoding.methods import METHODS
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


def run_of(request: Request, target: ToyTarget) -> Run:
    return Run(request, target.fork(), drafters_of(request.method, target))


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 4, 100])
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])
def test_every_text_is_that_of_the_request_alone(target: ToyTarget, sampling: Sampling, concurrency: int) -> None:
    requests = mixture(sampling)
    alone = [text(run(request, target, drafters_of(request.method, target))) for request in requests]
    rounds = list(decode_batch([run_of(request, target) for request in requests], concurrency))
    assert [text(round_ for number, round_ in rounds if number == wanted) for wanted in range(len(requests))] == alone
    assert len(set(map(tuple, alone))) > 10


def test_who_ends_makes_room_at_the_next_round(target: ToyTarget) -> None:
    lengths = [3, 30, 5, 4]
    runs = [run_of(replace(PLAIN, max_tokens=length), target) for length in lengths]
    order = [number for number, _ in decode_batch(runs, 2)]
    assert order[:8] == [0, 1, 0, 1, 0, 1, 1, 2] and [order.count(number) for number in range(4)] == lengths
    assert all(run.closed for run in runs)


def test_a_run_that_is_closed_disturbs_no_other(target: ToyTarget) -> None:
    request = Request(PROMPTS[0], method="ddtree", budget=15, max_tokens=60)
    kept, closed = runs = [run_of(request, target) for _ in range(2)]
    for one in runs:
        one.open()
    rounds = [step(runs)[0] for _ in range(3)]
    closed.close()
    assert kept.unfinished and not closed.unfinished
    while kept.unfinished:
        rounds += step([kept])
    assert text(rounds) == text(run(request, target, drafters_of("ddtree", target)))


def test_a_batch_that_is_left_frees_every_cache(target: ToyTarget) -> None:
    runs = [run_of(PLAIN, target) for _ in range(3)]
    rounds = decode_batch(runs, 2)
    next(rounds)
    rounds.close()
    assert [run.closed for run in runs] == [True, True, False], "the third has not begun"


def test_a_prompt_that_ends_at_once_has_no_round_and_keeps_no_cache(target: ToyTarget) -> None:
    root, _ = target.prefill(PROMPTS[0], 1, GREEDY)
    runs = [run_of(replace(PLAIN, stop_ids=frozenset([root])), target) for _ in range(2)]
    assert list(decode_batch(runs, 1)) == [] and all(run.closed for run in runs)
    assert list(decode_batch([], 1)) == []
