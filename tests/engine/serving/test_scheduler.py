"""Concurrent runs: each text is the run's own, whoever comes, is slow, leaves or fails disturbs nobody, and nobody gets
less than a part of the rig for himself, counted on a rig of which it is known what its rounds take."""

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine.budget.cost import RoundCost
from engine.decoding.loop import DecodeRun
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.records import WAIT, PackedTree, Request, Sampling, Verification
from engine.serving import scheduler
from engine.serving.scheduler import FairShare, RunReader, RunRound, Scheduler, pick_batch, update_owed
from tests.engine.material import GREEDY, WARM, drafters_of, run, text
from tests.engine.toy import ToyTarget
from tests.running import until

PROMPTS = ((1, 2, 3, 1, 2), (4,), (0, 0, 7, 5, 1, 1, 2, 6, 3), (2, 6))


class Counting(ToyTarget):
    """Takes its time for every pass, and notes who was in it; ``failures`` are raised first, one a pass."""

    def __init__(self, pass_seconds: float = 0.0, passes: list[int] | None = None,
                 failures: list[Exception] | None = None) -> None:
        super().__init__(seed=2)
        self.pass_seconds = pass_seconds
        self.passes = [] if passes is None else passes
        self.failures = [] if failures is None else failures

    def fork(self) -> "Counting":
        return Counting(self.pass_seconds, self.passes, self.failures)

    def verify_batch(self, forks: Sequence[Any], packed: Sequence[PackedTree]) -> list[Verification]:
        self.passes.append(len(forks))
        if self.failures:
            raise self.failures.pop()
        time.sleep(self.pass_seconds)
        return [ToyTarget.verify(fork, tree) for fork, tree in zip(forks, packed, strict=True)]

    def verify(self, packed: PackedTree) -> Verification:
        return self.verify_batch([self], [packed])[0]


def run_of(target: ToyTarget, request: Request) -> DecodeRun:
    return DecodeRun(request, target.fork(), drafters_of(request.method, target))


def plain(target: ToyTarget, tokens: int) -> DecodeRun:
    return run_of(target, Request(PROMPTS[0], method="autoregressive", budget=0, max_tokens=tokens, sampling=GREEDY))


def read(reader: RunReader) -> list[RunRound]:
    return list(iter(reader.round, None))


def concurrent_runs(schedule: Scheduler, runs: Sequence[DecodeRun]) -> list[list[RunRound]]:
    """The rounds of all runs, each read in a thread of its own, which begin together."""
    ready = threading.Barrier(len(runs))

    def rounds_of(run: DecodeRun) -> list[RunRound]:
        with schedule.add_run(run) as reader:
            ready.wait()
            return read(reader)
    with ThreadPoolExecutor(len(runs)) as readers:
        return list(readers.map(rounds_of, runs))


def test_every_text_is_that_of_the_run_alone_whatever_shares_its_rounds() -> None:
    target = ToyTarget(seed=2)
    requests = [Request(PROMPTS[number % 4], method=method, budget=(0, 7, 31, 64)[number % 4],
                        max_tokens=20 + 9 * (number % 5),
                        sampling=Sampling(WARM.temperature * (number % 2), seed=number))
                for number, method in enumerate(METHODS)]
    alone = [text(run(request, target, drafters_of(request.method, target))) for request in requests]
    runs = concurrent_runs(Scheduler(), [run_of(target, request) for request in requests])
    assert [text([round_ for round_, _ in rounds]) for rounds in runs] == alone
    assert len(set(map(tuple, alone))) > 4


def test_all_get_a_round_each_and_are_told_who_shared_it() -> None:
    target = Counting(0.004)
    runs = concurrent_runs(Scheduler(), [plain(target, 60) for _ in range(6)])
    assert [len(rounds) for rounds in runs] == [60] * 6
    assert Counter(target.passes)[6] > 40, Counter(target.passes)
    round_, shared_pass = runs[2][30]
    assert shared_pass is not None and len(shared_pass.blocks) == shared_pass.runs == 6
    block = next(block for block in shared_pass.blocks if block.seat == shared_pass.own)
    assert block.keep is round_.acceptance.keep and block.parents is round_.tree.parents
    numbers = {shared_pass.own for rounds in runs for _, shared_pass in rounds[30:31] if shared_pass}
    assert round_.seconds[WAIT] >= 0 and numbers == set(range(6))


def test_who_comes_joins_and_who_leaves_frees_its_place() -> None:
    target = Counting(0.002)
    schedule = Scheduler()
    with schedule.add_run(plain(target, 4000)) as first:
        first.round()
        for tokens in (30, 4000):
            with schedule.add_run(plain(target, tokens)) as second:
                assert second.seat == 1
                assert len(read(second)) == 30 if tokens == 30 else second.round()
            round_ = first.round()
            assert round_ and round_[1] is None, "it is alone again"
    schedule.wait_until_idle()
    assert first.run.closed and second.run.closed


def test_a_slow_reader_sits_rounds_out_and_nothing_piles_up() -> None:
    target = Counting(0.001)
    schedule = Scheduler()
    with schedule.add_run(plain(target, 4000)) as slow, schedule.add_run(plain(target, 100)) as quick:
        assert slow.round() is not None
        began = time.monotonic()
        assert len(read(quick)) == 100
        assert time.monotonic() - began < 5
        round_ = slow.round()
        assert round_ is not None and round_[0].index == 1


def test_a_reader_who_is_gone_is_given_up_once_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "STALLED_SECONDS", 0.2)
    target = ToyTarget(seed=2)
    schedule = Scheduler()
    with schedule.add_run(plain(target, 50)) as gone:
        gone.round()
        time.sleep(0.5)
        assert gone.round() is not None, "nobody waits for it"
        with schedule.add_run(plain(target, 50)) as other:
            until(lambda: (round_ := other.round()) is not None and round_[1] is None)
        with pytest.raises(RequestError):
            gone.round()


def test_a_prompt_that_cannot_be_read_is_told_and_the_others_go_on() -> None:
    class Refusing(ToyTarget):
        def prefill(self, prompt_ids: Sequence[int], rows: int, sampling: Sampling) -> tuple[int, Any]:
            raise RequestError("It does not fit into memory.")

    target, schedule = ToyTarget(seed=2), Scheduler()
    with schedule.add_run(plain(target, 20)) as good:
        good.round()
        with schedule.add_run(plain(Refusing(), 20)) as bad:
            with pytest.raises(RequestError, match="memory"):
                bad.round()
            assert bad.round() is None
        assert len(read(good)) == 19


def test_a_run_that_cannot_be_closed_disturbs_nobody_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(DecodeRun):
        def close(self, failed: bool = False) -> None:
            raise ZeroDivisionError("stuck")

    target, schedule = ToyTarget(seed=2), Scheduler()
    with schedule.add_run(plain(target, 20)) as good:
        good.round()
        request = Request(PROMPTS[0], method="autoregressive", budget=0, max_tokens=4000, sampling=GREEDY)
        with schedule.add_run(Stuck(request, target.fork(), [])) as stuck:
            stuck.round()
        assert len(read(good)) == 19
    schedule.wait_until_idle()
    assert "ZeroDivisionError: stuck" in caplog.text


def test_runs_of_a_round_that_fails_are_told_and_the_next_is_answered() -> None:
    target = Counting(failures=[ZeroDivisionError("broken")])
    schedule = Scheduler()
    with schedule.add_run(plain(target, 5)) as reader, pytest.raises(ZeroDivisionError):
        reader.round()
    with schedule.add_run(plain(target, 5)) as reader:
        assert len(read(reader)) == 5


FREE, DEAR, BOTH = (0.02, 0.0), (0.001, 0.001), (0.02, 0.0004)  # seconds of a pass, and of each of its rows
MIXTURES = ((1, 31, 31), (1, 1025), (65,) * 8, (1, 1, 9, 17, 33, 65, 129, 257), (1,) * 7 + (513,))


def rates(rows: Sequence[int], costs: tuple[float, float], noise: random.Random | None = None) -> list[float]:
    """The rates of runs whose rounds have so many rows, each over a lone run's rate divided by their number."""
    runs = [FairShare(rows=size) for size in rows]
    rounds, cost, clock = Counter[int](), RoundCost(), 0.0
    while clock < 400:
        inside = pick_batch(runs, cost)
        seconds = costs[0] + costs[1] * sum(run.rows for run in inside)
        seconds *= noise.choice((0.9, 1.0, 1.1, 1.0, 8.0 if noise.random() < 0.1 else 1.0)) if noise else 1.0
        cost.learn(sum(run.rows for run in inside), seconds)
        update_owed(runs, inside, cost)
        clock += seconds
        rounds.update(map(id, inside))
    return [rounds[id(run)] / clock * (costs[0] + costs[1] * run.rows) * len(runs) for run in runs]


@pytest.mark.parametrize("rows", MIXTURES, ids=str)
def test_nobody_falls_below_a_part_of_a_lone_run(rows: Sequence[int]) -> None:
    assert min(rates(rows, DEAR)) > 0.8 and min(rates(rows, BOTH)) > 0.8
    assert min(rates(rows, FREE)) > 0.85 * len(rows), "where rows are free, all are nearly as fast as alone"


def test_what_else_holds_rounds_up_parts_no_runs() -> None:
    parts = rates((65,) * 8, BOTH, random.Random(1))
    assert max(parts) < 1.02 * min(parts)
    assert min(rates((1, 31, 31), FREE, random.Random(1))) > 0.4 * min(rates((1, 31, 31), FREE))
