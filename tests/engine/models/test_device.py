"""Inference mode is entered once a round; threads sleep at their barriers while other programs want the processors."""

import threading
from collections.abc import Generator, Iterator

import pytest
import torch

from engine.machine.threads import OtherWork, processors
from engine.models.device import WaitingPolicy, in_inference_mode, rounds_in_inference_mode
from engine.records import Request, Round
from tests.engine.material import decode, text_of
from tests.engine.small import small_drafter, small_target
from tests.running import until

REQUEST = Request(tuple(range(5, 25)), method="ddtree", budget=7, max_tokens=20)


def test_a_call_is_made_in_inference_mode_whoever_makes_it() -> None:
    @in_inference_mode
    def seen(number: int, *, more: int = 0) -> tuple[bool, int]:
        return torch.is_inference_mode_enabled(), number + more

    assert seen(1, more=2) == (True, 3) and not torch.is_inference_mode_enabled()
    with torch.inference_mode():
        assert seen(1) == (True, 1)
    assert seen.__name__ == "seen"


def test_rounds_are_the_same_and_the_mode_is_left_between_them() -> None:
    target, tokens = small_target(), list[int]()
    for round_ in rounds_in_inference_mode(decode(REQUEST, target, [small_drafter(target)])):
        assert not torch.is_inference_mode_enabled()
        tokens += round_.committed.tolist()
    assert tokens == text_of(REQUEST, target, [small_drafter(target)])


def test_what_a_round_raises_and_an_early_end_leave_the_mode_too() -> None:
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


class Told(OtherWork):
    """Other work as a test tells it."""

    busy = 0.0

    def busy_processors(self) -> float:
        return self.busy


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.setattr("engine.models.device.POLL_SECONDS", 0.0)
    until(lambda: not teams())  # what an earlier test of this process called up and forsook
    threads = torch.get_num_threads()
    torch.set_num_threads(max(2, len(processors())))
    yield Told()
    torch.set_num_threads(threads)


def teams() -> int:
    return sum(thread.name == "second team" for thread in threading.enumerate())


@pytest.mark.long  # needs processors that nobody else wants
def test_threads_sleep_while_the_processors_are_wanted_and_not_after(others: Told) -> None:
    waiting = WaitingPolicy(others)
    waiting.adapt()
    assert not waiting.asleep
    others.busy = 2.0
    waiting.adapt()
    assert waiting.asleep and teams() == 1
    others.busy = 0.4  # less than what begins it, more than what ends it
    waiting.adapt()
    assert waiting.asleep and teams() == 1
    others.busy = 0.0
    waiting.adapt()
    until(lambda: not teams())
    waiting.adapt()
    assert not waiting.asleep


@pytest.mark.parametrize(("busy", "threads", "look_seconds"), [(0.4, 2, 0.0), (8.0, 1, 0.0), (2.0, 2, 60.0)],
                         ids=["little other work", "a thread that meets nobody", "too early for a look"])
def test_threads_go_on_spinning(others: Told, monkeypatch: pytest.MonkeyPatch, busy: float, threads: int,
                                look_seconds: float) -> None:
    monkeypatch.setattr("engine.models.device.POLL_SECONDS", look_seconds)
    torch.set_num_threads(threads)
    others.busy, waiting = busy, WaitingPolicy(others)
    waiting.adapt()
    assert not waiting.asleep


def test_who_no_longer_decodes_leaves_no_team(others: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.device.IDLE_SECONDS", 0.05)
    others.busy, waiting = 2.0, WaitingPolicy(others)
    waiting.adapt()
    assert waiting.asleep
    until(lambda: not teams())
