"""Concurrent requests: each text equals that of the request alone, whichever others run, end or are closed."""

from dataclasses import replace

import pytest

from engine.decoding.loop import DecodeRun, decode_batch, step
from engine.records import Request
from tests.engine.helpers import GREEDY, drafters_of, run, text
from tests.engine.toy import ToyTarget

PROMPT = (1, 2, 3, 1, 2)
PLAIN = Request(PROMPT, method="autoregressive", budget=0, max_tokens=5)


@pytest.fixture
def target() -> ToyTarget:
    return ToyTarget(seed=2)


def run_of(request: Request, target: ToyTarget) -> DecodeRun:
    return DecodeRun(request, target.fork(), drafters_of(request.method, target))


def test_a_run_that_ends_makes_room_in_the_next_round(target: ToyTarget) -> None:
    lengths = [3, 30, 5, 4]
    runs = [run_of(replace(PLAIN, max_tokens=length), target) for length in lengths]
    order = [number for number, _ in decode_batch(runs, 2)]
    assert order[:8] == [0, 1, 0, 1, 0, 1, 1, 2] and [order.count(number) for number in range(4)] == lengths
    assert all(run.closed for run in runs)


def test_closing_a_run_does_not_change_the_others(target: ToyTarget) -> None:
    request = Request(PROMPT, method="ddtree", budget=15, max_tokens=60)
    kept, closed = runs = [run_of(request, target) for _ in range(2)]
    for one in runs:
        one.open()
    rounds = [step(runs)[0] for _ in range(3)]
    closed.close()
    assert kept.unfinished and not closed.unfinished
    while kept.unfinished:
        rounds += step([kept])
    assert text(rounds) == text(run(request, target, drafters_of("ddtree", target)))


def test_closing_a_batch_frees_every_cache(target: ToyTarget) -> None:
    runs = [run_of(PLAIN, target) for _ in range(3)]
    rounds = decode_batch(runs, 2)
    next(rounds)
    rounds.close()
    assert [run.closed for run in runs] == [True, True, False], "the third run has not begun"


def test_a_prompt_that_ends_at_once_has_no_round_and_keeps_no_cache(target: ToyTarget) -> None:
    root, _ = target.prefill(PROMPT, 1, GREEDY)
    runs = [run_of(replace(PLAIN, stop_ids=frozenset([root])), target) for _ in range(2)]
    assert list(decode_batch(runs, 1)) == [] and all(run.closed for run in runs)
    assert list(decode_batch([], 1)) == []
