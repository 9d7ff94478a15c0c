"""Runs that share rounds: each text is the run's own, and whoever comes, is slow, leaves or fails disturbs nobody."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from engine.decoding.loop import BatchRequest
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.records import WAIT, PackedTree, Request, Round, Sampling, Verification
from engine.serving import shared_rounds
from engine.serving.seats import Seat, SharedRun
from engine.serving.shared_rounds import SharedRounds
from engine.trace import SharedPass
from tests.engine.material import GREEDY, WARM, drafters_of, run, text
from tests.engine.toy import ToyTarget

PROMPTS = ((1, 2, 3, 1, 2), (4,), (0, 0, 7, 5, 1, 1, 2, 6, 3), (2, 6))


class Counting(ToyTarget):
    """Takes its time for every pass, and notes who was in it."""

    passes: list[int]
    pass_seconds = 0.0

    def fork(self) -> "Counting":
        other = Counting(seed=2)
        other.passes, other.pass_seconds = self.passes, self.pass_seconds
        return other

    def verify_batch(self, forks: Sequence[Any], packed: Sequence[PackedTree]) -> list[Verification]:
        self.passes.append(len(forks))
        time.sleep(self.pass_seconds)
        return [ToyTarget.verify(fork, own) for fork, own in zip(forks, packed, strict=True)]

    def verify(self, packed: PackedTree) -> Verification:
        return self.verify_batch([self], [packed])[0]


def counting(pass_seconds: float = 0.0) -> Counting:
    target = Counting(seed=2)
    target.passes, target.pass_seconds = [], pass_seconds
    return target


def asked(target: ToyTarget, request: Request) -> SharedRun:
    return SharedRun(lambda: BatchRequest(request, drafters_of(request.method, target)), "for a test")


def plain(tokens: int) -> Request:
    return Request(PROMPTS[0], method="autoregressive", budget=0, max_tokens=tokens, sampling=GREEDY)


def mixture() -> list[Request]:
    return [Request(PROMPTS[place % 4], method=method, budget=(0, 7, 31, 64)[place % 4],
                    max_tokens=20 + 9 * (place % 5), sampling=Sampling(WARM.temperature * (place % 2), seed=place))
            for place, method in enumerate(METHODS)]


def read(seat: Seat) -> list[tuple[Round, SharedPass | None]]:
    found = []
    while (made := seat.round()) is not None:
        found.append(made)
    return found


def all_at_once(acts: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not [thread for thread in threads if thread.is_alive()]


def runs_of(rounds: SharedRounds, runs: Sequence[SharedRun]) -> list[list[tuple[Round, SharedPass | None]]]:
    """All of them, each read in a thread of its own, which begin together."""
    found: dict[int, list[tuple[Round, SharedPass | None]]] = {}
    ready = threading.Barrier(len(runs))

    def act(place: int) -> None:
        with rounds.seat(runs[place]) as seat:
            ready.wait()
            found[place] = read(seat)
    all_at_once([partial(act, place) for place in range(len(runs))])
    return [found[place] for place in range(len(runs))]


def test_every_text_is_that_of_the_run_alone_whatever_shares_its_rounds() -> None:
    target, requests = ToyTarget(seed=2), mixture()
    alone = [text(run(request, target, drafters_of(request.method, target))) for request in requests]
    found = runs_of(SharedRounds(target), [asked(target, request) for request in requests])
    assert [text([made for made, _ in each]) for each in found] == alone
    assert len(set(map(tuple, alone))) > 4


def test_all_get_a_round_each_and_are_told_who_shared_it() -> None:
    target = counting(0.004)
    found = runs_of(SharedRounds(target), [asked(target, plain(60)) for _ in range(6)])
    assert [len(each) for each in found] == [60] * 6
    assert Counter(target.passes)[6] > 40, Counter(target.passes)
    made, shared_pass = found[2][30]
    assert shared_pass is not None and len(shared_pass.blocks) == shared_pass.runs == 6
    own = next(block for block in shared_pass.blocks if block.seat == shared_pass.own)
    assert own.keep is made.acceptance.keep and own.parents is made.tree.parents
    seats = {shared_pass.own for rounds in found for _, shared_pass in rounds[30:31] if shared_pass}
    assert made.seconds[WAIT] >= 0 and seats == set(range(6))


def test_a_run_by_itself_shares_nothing() -> None:
    target = ToyTarget(seed=2)
    with SharedRounds(target).seat(asked(target, plain(9))) as seat:
        found = read(seat)
    assert len(found) == 9 and not [made for made, shared_pass in found if shared_pass or WAIT in made.seconds]


def test_who_comes_joins_and_who_leaves_frees_its_place() -> None:
    target = counting(0.002)
    rounds = SharedRounds(target)
    with rounds.seat(asked(target, plain(4000))) as first:
        first.round()
        with rounds.seat(asked(target, plain(30))) as second:
            assert second.number == 1 and rounds.runs == 2
            assert len(read(second)) == 30
        wait_until(lambda: rounds.runs == 1)
        with rounds.seat(asked(target, plain(4000))) as third:
            assert third.number == 1
            third.round()
        wait_until(lambda: rounds.runs == 1)
        assert first.round() is not None
    wait_until(lambda: rounds._thread is None)
    assert not rounds._batch and not rounds._seats


def wait_until(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not done():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_a_slow_reader_sits_rounds_out_and_nothing_piles_up() -> None:
    target = counting(0.001)
    rounds = SharedRounds(target)
    with rounds.seat(asked(target, plain(4000))) as slow, rounds.seat(asked(target, plain(100))) as quick:
        assert slow.round() is not None
        began = time.monotonic()
        assert len(read(quick)) == 100
        assert time.monotonic() - began < 5
        made = slow.round()
        assert made is not None and made[0].index == 1


def test_a_reader_who_is_gone_is_given_up_once_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_rounds, "STALLED_SECONDS", 0.2)
    target = ToyTarget(seed=2)
    rounds = SharedRounds(target)
    with rounds.seat(asked(target, plain(50))) as gone:
        gone.round()
        time.sleep(0.5)
        assert gone.round() is not None, "nobody waits for it"
        with rounds.alone():
            assert rounds.runs == 0
        with pytest.raises(RequestError, match="Nobody took this run's rounds"):
            gone.round()


def test_whoever_measures_has_the_rig_alone_and_runs_wait() -> None:
    target = ToyTarget(seed=2)
    rounds = SharedRounds(target)
    order: list[str] = []

    def measure() -> None:
        with rounds.alone():
            order.append("measured")
            assert rounds.runs == 0

    def late() -> None:
        with rounds.seat(asked(target, plain(5))) as seat:
            order.append("ran after")
            read(seat)
    with rounds.seat(asked(target, plain(5))) as seat:
        waiting = [threading.Thread(target=measure)]
        waiting[0].start()
        wait_until(lambda: rounds._alone == 1)
        waiting.append(threading.Thread(target=late))
        waiting[1].start()
        assert len(read(seat)) == 5
        order.append("ran before")
    for thread in waiting:
        thread.join(20)
    assert order == ["ran before", "measured", "ran after"]


def test_a_request_that_cannot_be_served_is_told_and_the_others_go_on() -> None:
    target = ToyTarget(seed=2, context_limit=40)
    rounds = SharedRounds(target)
    with rounds.seat(asked(target, plain(20))) as good:
        good.round()
        with rounds.seat(asked(target, Request((1,) * 40))) as bad, pytest.raises(RequestError, match="shorten it"):
            bad.round()
        assert len(read(good)) == 19


def test_runs_of_a_round_that_fails_are_told_and_the_next_is_answered() -> None:
    class FailingOnce(ToyTarget):
        failures = [ZeroDivisionError("broken")]

        def fork(self) -> "FailingOnce":
            return FailingOnce(seed=2)

        def verify(self, packed: PackedTree) -> Verification:
            if self.failures:
                raise self.failures.pop()
            return super().verify(packed)
    target = FailingOnce(seed=2)
    rounds = SharedRounds(target)
    with rounds.seat(asked(target, plain(5))) as seat, pytest.raises(ZeroDivisionError):
        seat.round()
    with rounds.seat(asked(target, plain(5))) as seat:
        assert len(read(seat)) == 5
