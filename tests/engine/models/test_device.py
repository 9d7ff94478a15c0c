"""Each round runs in inference mode; threads sleep at barriers while other programs want the processors."""

import threading
from collections.abc import Generator, Iterator

import pytest
import torch

from engine.machine.threads import OtherWork, processors
from engine.models.device import WaitingPolicy, in_inference_mode, rounds_in_inference_mode
from engine.records import Request, Round
from tests.engine.helpers import decode, text_of
from tests.engine.small import small_drafter, small_target
from tests.running import until

REQUEST = Request(tuple(range(5, 25)), method="ddtree", budget=7, max_tokens=20)


def test_a_decorated_function_runs_in_inference_mode() -> None:
    @in_inference_mode
    def seen(number: int, *, more: int = 0) -> tuple[bool, int]:
        return torch.is_inference_mode_enabled(), number + more

    assert seen(1, more=2) == (True, 3) and not torch.is_inference_mode_enabled()
    with torch.inference_mode():
        assert seen(1) == (True, 1)
    assert seen.__name__ == "seen"


def test_inference_mode_is_left_between_rounds() -> None:
    target, tokens = small_target(), list[int]()
    for round_ in rounds_in_inference_mode(decode(REQUEST, target, [small_drafter(target)])):
        assert not torch.is_inference_mode_enabled()
        tokens += round_.committed.tolist()
    assert tokens == text_of(REQUEST, target, [small_drafter(target)])


def test_inference_mode_is_left_after_an_error_and_an_early_end() -> None:
    ended: list[bool] = []

    def rounds() -> Generator[Round, None, None]:
        try:
            yield from decode(REQUEST, target, [small_drafter(target)])
            raise ValueError("broken")
        finally:
            ended.append(torch.is_inference_mode_enabled())

    target = small_target()
    with pytest.raises(ValueError, match="broken"):
        list(rounds_in_inference_mode(rounds()))
    early = rounds_in_inference_mode(rounds())
    next(early)
    early.close()
    assert len(ended) == 2 and not torch.is_inference_mode_enabled()


class OtherWorkStub(OtherWork):
    """Report the other work that a test sets."""

    busy = 0.0

    def busy_processors(self) -> float:
        return self.busy


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtherWorkStub]:
    monkeypatch.setattr("engine.models.device.POLL_SECONDS", 0.0)
    until(lambda: not teams())  # teams that an earlier test of this process left
    threads = torch.get_num_threads()
    torch.set_num_threads(max(2, len(processors())))
    yield OtherWorkStub()
    torch.set_num_threads(threads)


def teams() -> int:
    return sum(thread.name == "second team" for thread in threading.enumerate())


@pytest.mark.long  # needs idle processors
def test_threads_sleep_only_while_other_work_wants_the_processors(others: OtherWorkStub) -> None:
    waiting = WaitingPolicy(others)
    waiting.adapt()
    assert not waiting.asleep
    others.busy = 2.0
    waiting.adapt()
    assert waiting.asleep and teams() == 1
    others.busy = 0.4  # below the upper limit, above the lower one
    waiting.adapt()
    assert waiting.asleep and teams() == 1
    others.busy = 0.0
    waiting.adapt()
    until(lambda: not teams())
    waiting.adapt()
    assert not waiting.asleep


@pytest.mark.parametrize(("busy", "threads", "look_seconds"), [(0.4, 2, 0.0), (8.0, 1, 0.0), (2.0, 2, 60.0)],
                         ids=["little other work", "a single thread", "too early for a look"])
def test_threads_keep_spinning_if_sleep_would_not_help(
        others: OtherWorkStub, monkeypatch: pytest.MonkeyPatch, busy: float, threads: int, look_seconds: float) -> None:
    monkeypatch.setattr("engine.models.device.POLL_SECONDS", look_seconds)
    torch.set_num_threads(threads)
    others.busy, waiting = busy, WaitingPolicy(others)
    waiting.adapt()
    assert not waiting.asleep


def test_an_idle_process_ends_its_second_team(others: OtherWorkStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.device.IDLE_SECONDS", 0.05)
    others.busy, waiting = 2.0, WaitingPolicy(others)
    waiting.adapt()
    assert waiting.asleep
    until(lambda: not teams())
