"""Admission: the room is never overdrawn, requests keep their order, one address does not delay others, exclusive use
is exclusive, and everything is freed again."""

import threading
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.errors import CancellationError
from engine.requests.admission import FULL_SHARE, MAX_SHARE_PER_ADDRESS, SHARE_TOLERANCE, Admission, QueueEntry
from tests.running import until

SHARES = st.sampled_from([1 / 8, 1 / 4, 0.3, 1 / 2, 0.7, FULL_SHARE])


class AdmissionMachine(RuleBasedStateMachine):
    """Let requests arrive and leave at random."""

    @initialize()
    def open(self) -> None:
        self.admission = Admission()
        self.here: list[tuple[QueueEntry, ExitStack]] = []
        self.admitted: set[QueueEntry] = set()

    @property
    def entries(self) -> list[QueueEntry]:
        return [entry for entry, _ in self.here]

    def used_share(self, address: str | None = None) -> float:
        return sum(entry.share for entry in self.entries if entry.admitted and address in (None, entry.address))

    def at_its_limit(self, entry: QueueEntry) -> bool:
        used = self.used_share(entry.address)
        return bool(entry.address) and used > 0 and used + entry.share > MAX_SHARE_PER_ADDRESS + SHARE_TOLERANCE

    @rule(address=st.sampled_from(["", "a", "b", "c"]), share=SHARES)
    def arrive(self, address: str, share: float) -> None:
        held = ExitStack()
        self.here.append((held.enter_context(self.admission.enter(address, share)), held))

    @precondition(lambda self: self.here)
    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        entry, held = self.here.pop(data.draw(st.integers(0, len(self.here) - 1)))
        self.admitted.discard(entry)
        held.close()

    @rule()
    def call_when_idle(self) -> None:
        acted: list[int] = []
        assert self.admission.when_idle(lambda: acted.append(1)) == bool(acted) == (not self.here)

    @invariant()
    def the_room_is_not_overdrawn(self) -> None:
        assert self.used_share() <= FULL_SHARE + SHARE_TOLERANCE
        for address in {entry.address for entry in self.entries} - {""}:
            running = [entry for entry in self.entries if entry.admitted and entry.address == address]
            assert len(running) < 2 or self.used_share(address) <= MAX_SHARE_PER_ADDRESS + SHARE_TOLERANCE

    @invariant()
    def exclusive_use_is_exclusive(self) -> None:
        running = [entry for entry in self.entries if entry.admitted]
        assert len(running) < 2 or all(entry.share < FULL_SHARE for entry in running)

    @invariant()
    def order_is_kept_except_between_addresses(self) -> None:
        for number, entry in enumerate(self.entries):
            if entry.admitted and entry not in self.admitted:
                assert all(earlier.admitted or self.at_its_limit(earlier) for earlier in self.entries[:number])
        assert all(entry.admitted for entry in self.admitted), "a request that has admitted continues"
        self.admitted = {entry for entry in self.entries if entry.admitted}

    @invariant()
    def the_next_request_does_not_fit(self) -> None:
        waiting = [entry for entry in self.entries if not entry.admitted and not self.at_its_limit(entry)]
        assert not waiting or self.used_share() + waiting[0].share > FULL_SHARE + SHARE_TOLERANCE

    @invariant()
    def everyone_is_counted_and_told_their_position(self) -> None:
        assert self.admission.count_entries() == len(self.here)
        assert self.admission.running() == sum(entry.admitted for entry in self.entries)
        before = 0
        for entry in self.entries:
            sentence = self.admission.wait(entry, 0)
            assert bool(sentence) != entry.admitted
            assert entry.admitted or f"number {before + 1} " in sentence
            before += not entry.admitted

    def teardown(self) -> None:
        for _, held in self.here:
            held.close()
        assert self.admission.count_entries() == self.admission.running() == 0


AdmissionMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_admission = AdmissionMachine.TestCase


def test_exclusive_use_is_reentrant() -> None:
    admission = Admission()
    with admission.exclusive(), admission.exclusive(), admission.admitted(0.5):
        assert admission.count_entries() == 1
    with admission.exclusive():
        assert admission.running() == 1, "it was given back and is taken again"
    assert admission.count_entries() == 0


def test_exclusive_use_excludes_other_threads_and_all_are_served() -> None:
    admission, lock = Admission(), threading.Lock()
    inside: list[float] = []
    seen: list[float] = []

    def act(share: float) -> None:
        for _ in range(20):
            with admission.exclusive() if share == FULL_SHARE else admission.admitted(share):
                with lock:
                    inside.append(share)
                    seen.append(sum(inside))
                with lock:
                    inside.remove(share)
    threads = [threading.Thread(target=act, args=(share,)) for share in (FULL_SHARE, 0.25, 0.5, FULL_SHARE, 0.25, 0.25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(seen) == 120 and max(seen) <= FULL_SHARE and admission.count_entries() == 0


def test_a_waiting_request_is_told_why_and_may_leave_by_raising() -> None:
    admission, heard = Admission(), list[str]()

    def report(sentence: str) -> None:
        heard.append(sentence)
        raise CancellationError("It was stopped.")
    with admission.enter("somebody", 0.5, "run"):
        with pytest.raises(CancellationError), admission.exclusive(report):
            pass
        assert admission.count_entries() == 1 and admission.count_entries(excluding="run") == 0
    with pytest.raises(ZeroDivisionError), admission.exclusive():
        1 / 0  # noqa: B018
    assert "run" in heard[0] and admission.count_entries() == 0


def test_when_idle_waits_and_is_counted_meanwhile() -> None:
    admission, acted = Admission(), threading.Event()
    with admission.enter():
        assert not admission.when_idle(acted.set, 0.01)
        visitor = threading.Thread(target=admission.when_idle, args=(acted.set, 20))
        visitor.start()
        until(lambda: admission.count_entries() == 2)
    visitor.join(20)
    assert acted.is_set() and admission.count_entries() == 0
