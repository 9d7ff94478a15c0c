"""Concurrent runs: each text is the run's own, no run is disturbed by others that arrive, are slow, leave or fail, and
each gets its share of the rig, which is counted with known round times."""

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
from tests.engine.helpers import GREEDY, WARM, drafters_of, run, text
from tests.engine.toy import ToyTarget
from tests.running import until

PROMPTS = ((1, 2, 3, 1, 2), (4,), (0, 0, 7, 5, 1, 1, 2, 6, 3), (2, 6))


class CountingTarget(ToyTarget):
    """Sleep in every pass and record how many runs are in it; raise ``failures`` first, one per pass."""

    def __init__(self, pass_seconds: float = 0.0, passes: list[int] | None = None,
                 failures: list[Exception] | None = None) -> None:
        super().__init__(seed=2)
        self.pass_seconds = pass_seconds
        self.passes = [] if passes is None else passes
        self.failures = [] if failures is None else failures

    def fork(self) -> "CountingTarget":
        return CountingTarget(self.pass_seconds, self.passes, self.failures)

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
    """Return the rounds of all runs, which begin together, each read in its own thread."""
    ready = threading.Barrier(len(runs))

    def rounds_of(run: DecodeRun) -> list[RunRound]:
        with schedule.add_run(run) as reader:
            ready.wait()
            return read(reader)
    with ThreadPoolExecutor(len(runs)) as readers:
        return list(readers.map(rounds_of, runs))


def test_every_text_equals_that_of_the_run_alone() -> None:
    target = ToyTarget(seed=2)
    requests = [Request(PROMPTS[number % 4], method=method, budget=(0, 7, 31, 64)[number % 4],
                        max_tokens=20 + 9 * (number % 5),
                        sampling=Sampling(WARM.temperature * (number % 2), seed=number))
                for number, method in enumerate(METHODS)]
    alone = [text(run(request, target, drafters_of(request.method, target))) for request in requests]
    runs = concurrent_runs(Scheduler(), [run_of(target, request) for request in requests])
    assert [text([round_ for round_, _ in rounds]) for rounds in runs] == alone
    assert len(set(map(tuple, alone))) > 4


def test_runs_share_rounds_and_each_round_names_the_others() -> None:
    target = CountingTarget(0.004)
    runs = concurrent_runs(Scheduler(), [plain(target, 60) for _ in range(6)])
    assert [len(rounds) for rounds in runs] == [60] * 6
    assert Counter(target.passes)[6] > 40, Counter(target.passes)
    round_, shared_pass = runs[2][30]
    assert shared_pass is not None and len(shared_pass.blocks) == shared_pass.runs == 6
    block = next(block for block in shared_pass.blocks if block.seat == shared_pass.own)
    assert block.keep is round_.acceptance.keep and block.parents is round_.tree.parents
    numbers = {shared_pass.own for rounds in runs for _, shared_pass in rounds[30:31] if shared_pass}
    assert round_.seconds[WAIT] >= 0 and numbers == set(range(6))


def test_a_new_run_joins_and_a_closed_one_frees_its_seat() -> None:
    target = CountingTarget(0.002)
    schedule = Scheduler()
    with schedule.add_run(plain(target, 4000)) as first:
        first.round()
        for tokens in (30, 4000):
            with schedule.add_run(plain(target, tokens)) as second:
                assert second.seat == 1
                assert len(read(second)) == 30 if tokens == 30 else second.round()
            round_ = first.round()
            assert round_ and round_[1] is None, "the run is alone again"
    schedule.wait_until_idle()
    assert first.run.closed and second.run.closed


def test_a_slow_reader_skips_rounds_and_does_not_delay_others() -> None:
    target = CountingTarget(0.001)
    schedule = Scheduler()
    with schedule.add_run(plain(target, 4000)) as slow, schedule.add_run(plain(target, 100)) as quick:
        assert slow.round() is not None
        began = time.monotonic()
        assert len(read(quick)) == 100
        assert time.monotonic() - began < 5
        round_ = slow.round()
        assert round_ is not None and round_[0].index == 1


def test_a_stalled_reader_is_dropped_once_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "STALLED_SECONDS", 0.2)
    target = ToyTarget(seed=2)
    schedule = Scheduler()
    with schedule.add_run(plain(target, 50)) as gone:
        gone.round()
        time.sleep(0.5)
        assert gone.round() is not None, "a stalled reader goes on while no other run waits"
        with schedule.add_run(plain(target, 50)) as other:
            until(lambda: (round_ := other.round()) is not None and round_[1] is None)
        with pytest.raises(RequestError):
            gone.round()


def test_a_refused_prompt_does_not_disturb_other_runs() -> None:
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


def test_a_failure_to_close_a_run_is_logged_and_disturbs_no_other(caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_failed_round_raises_in_its_runs_and_the_next_run_is_served() -> None:
    target = CountingTarget(failures=[ZeroDivisionError("broken")])
    schedule = Scheduler()
    with schedule.add_run(plain(target, 5)) as reader, pytest.raises(ZeroDivisionError):
        reader.round()
    with schedule.add_run(plain(target, 5)) as reader:
        assert len(read(reader)) == 5


FREE_ROWS, EXPENSIVE_ROWS, MIXED_COSTS = (0.02, 0.0), (0.001, 0.001), (0.02, 0.0004)  # seconds per pass, and per row
MIXTURES = ((1, 31, 31), (1, 1025), (65,) * 8, (1, 1, 9, 17, 33, 65, 129, 257), (1,) * 7 + (513,))


def rates(rows: Sequence[int], costs: tuple[float, float], noise: random.Random | None = None) -> list[float]:
    """Return each run's rate, relative to the rate of a lone run divided by the number of runs."""
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
def test_every_run_gets_its_share_of_a_lone_runs_rate(rows: Sequence[int]) -> None:
    assert min(rates(rows, EXPENSIVE_ROWS)) > 0.8 and min(rates(rows, MIXED_COSTS)) > 0.8
    assert min(rates(rows, FREE_ROWS)) > 0.85 * len(rows), "if rows are free, each run is nearly as fast as alone"


def test_delayed_rounds_keep_the_shares_equal() -> None:
    parts = rates((65,) * 8, MIXED_COSTS, random.Random(1))
    assert max(parts) < 1.02 * min(parts)
    assert min(rates((1, 31, 31), FREE_ROWS, random.Random(1))) > 0.4 * min(rates((1, 31, 31), FREE_ROWS))
