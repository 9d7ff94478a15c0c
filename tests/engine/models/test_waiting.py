"""Threads sleep at their barriers while other programs want the processors, and spin again afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from time import monotonic, sleep

import pytest
import torch

from engine.machine.threads import OtherWork, processors
from engine.models.device import WaitingPolicy


class Told(OtherWork):
    """Other work as a test tells it."""

    busy = 0.0

    def since_last_asked(self) -> float:
        return self.busy


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.setattr("engine.models.device.LOOK_SECONDS", 0.0)
    until_gone()  # what an earlier test of this process called up and forsook
    threads = torch.get_num_threads()
    torch.set_num_threads(max(2, len(processors())))
    yield Told()
    torch.set_num_threads(threads)


def teams() -> int:
    return sum(thread.name == "second team" for thread in threading.enumerate())


def until_gone() -> None:
    end = monotonic() + 10
    while teams() and monotonic() < end:
        sleep(0.01)
    assert teams() == 0


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
    until_gone()
    waiting.adapt()
    assert not waiting.asleep


def test_a_little_other_work_changes_nothing(others: Told) -> None:
    others.busy, waiting = 0.4, WaitingPolicy(others)
    waiting.adapt()
    assert not waiting.asleep


def test_one_thread_meets_nobody(others: Told) -> None:
    torch.set_num_threads(1)
    others.busy, waiting = 8.0, WaitingPolicy(others)
    waiting.adapt()
    assert not waiting.asleep


def test_who_no_longer_decodes_leaves_no_team(others: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.device.FORSAKEN_SECONDS", 0.05)
    others.busy, waiting = 2.0, WaitingPolicy(others)
    waiting.adapt()
    assert waiting.asleep
    until_gone()


def test_a_look_comes_now_and_then_only(others: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.device.LOOK_SECONDS", 60.0)
    others.busy, waiting = 2.0, WaitingPolicy(others)
    waiting.adapt()
    assert not waiting.asleep
