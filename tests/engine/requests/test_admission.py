"""Admission: never more than the room, in order of arrival, one address keeps nobody waiting, alone is alone, and
everything that was taken is free again."""

import threading
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.errors import CancellationError
from engine.requests.admission import MAX_SHARE_PER_ADDRESS, SHARE_TOLERANCE, WHOLE_RIG, Admission, Place
from tests.running import until

SHARES = st.sampled_from([1 / 8, 1 / 4, 0.3, 1 / 2, 0.7, WHOLE_RIG])


class Line(RuleBasedStateMachine):
    """People come and leave as they like."""

    @initialize()
    def open(self) -> None:
        self.admission = Admission()
        self.here: list[tuple[Place, ExitStack]] = []
        self.begun: set[Place] = set()

    @property
    def places(self) -> list[Place]:
        return [place for place, _ in self.here]

    def taken(self, address: str | None = None) -> float:
        return sum(place.share for place in self.places if place.begun and address in (None, place.address))

    def has_its_part(self, place: Place) -> bool:
        taken = self.taken(place.address)
        return bool(place.address) and taken > 0 and taken + place.share > MAX_SHARE_PER_ADDRESS + SHARE_TOLERANCE

    @rule(address=st.sampled_from(["", "a", "b", "c"]), share=SHARES)
    def arrive(self, address: str, share: float) -> None:
        held = ExitStack()
        self.here.append((held.enter_context(self.admission.place(address, share)), held))

    @precondition(lambda self: self.here)
    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        place, held = self.here.pop(data.draw(st.integers(0, len(self.here) - 1)))
        self.begun.discard(place)
        held.close()

    @rule()
    def look_for_a_pause(self) -> None:
        acted: list[int] = []
        assert self.admission.when_idle(lambda: acted.append(1)) == bool(acted) == (not self.here)

    @invariant()
    def the_room_is_not_overdrawn(self) -> None:
        assert self.taken() <= WHOLE_RIG + SHARE_TOLERANCE
        for address in {place.address for place in self.places} - {""}:
            running = [place for place in self.places if place.begun and place.address == address]
            assert len(running) < 2 or self.taken(address) <= MAX_SHARE_PER_ADDRESS + SHARE_TOLERANCE

    @invariant()
    def whoever_takes_all_is_alone(self) -> None:
        running = [place for place in self.places if place.begun]
        assert len(running) < 2 or all(place.share < WHOLE_RIG for place in running)

    @invariant()
    def nobody_is_overtaken_but_by_another_address(self) -> None:
        for number, place in enumerate(self.places):
            if place.begun and place not in self.begun:
                assert all(earlier.begun or self.has_its_part(earlier) for earlier in self.places[:number])
        assert all(place.begun for place in self.begun), "who has begun goes on"
        self.begun = {place for place in self.places if place.begun}

    @invariant()
    def no_room_is_left_to_whoever_is_next(self) -> None:
        waiting = [place for place in self.places if not place.begun and not self.has_its_part(place)]
        assert not waiting or self.taken() + waiting[0].share > WHOLE_RIG + SHARE_TOLERANCE

    @invariant()
    def everybody_is_counted_and_told(self) -> None:
        assert self.admission.count_places() == len(self.here)
        assert self.admission.running() == sum(place.begun for place in self.places)
        before = 0
        for place in self.places:
            sentence = self.admission.wait(place, 0)
            assert bool(sentence) != place.begun
            assert place.begun or f"number {before + 1} " in sentence
            before += not place.begun

    def teardown(self) -> None:
        for _, held in self.here:
            held.close()
        assert self.admission.count_places() == self.admission.running() == 0


Line.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_line = Line.TestCase


def test_a_thread_that_has_the_machine_alone_needs_no_other_place() -> None:
    admission = Admission()
    with admission.exclusive(), admission.exclusive(), admission.admitted(0.5):
        assert admission.count_places() == 1
    with admission.exclusive():
        assert admission.running() == 1, "it was given back and is taken again"
    assert admission.count_places() == 0


def test_alone_is_alone_among_threads_and_all_have_their_turn() -> None:
    admission, lock = Admission(), threading.Lock()
    inside: list[float] = []
    seen: list[float] = []

    def act(share: float) -> None:
        for _ in range(20):
            with admission.exclusive() if share == WHOLE_RIG else admission.admitted(share):
                with lock:
                    inside.append(share)
                    seen.append(sum(inside))
                with lock:
                    inside.remove(share)
    threads = [threading.Thread(target=act, args=(share,)) for share in (WHOLE_RIG, 0.25, 0.5, WHOLE_RIG, 0.25, 0.25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(seen) == 120 and max(seen) <= WHOLE_RIG and admission.count_places() == 0


def test_whoever_waits_hears_why_and_may_leave_by_raising() -> None:
    admission, heard = Admission(), list[str]()

    def report(sentence: str) -> None:
        heard.append(sentence)
        raise CancellationError("It was stopped.")
    with admission.place("somebody", 0.5, "run"):
        with pytest.raises(CancellationError), admission.exclusive(report):
            pass
        assert admission.count_places() == 1 and admission.count_places(besides="run") == 0
    with pytest.raises(ZeroDivisionError), admission.exclusive():
        1 / 0  # noqa: B018
    assert "run" in heard[0] and admission.count_places() == 0


def test_a_pause_is_waited_for_and_the_visitor_is_counted_meanwhile() -> None:
    admission, acted = Admission(), threading.Event()
    with admission.place():
        assert not admission.when_idle(acted.set, 0.01)
        visitor = threading.Thread(target=admission.when_idle, args=(acted.set, 20))
        visitor.start()
        until(lambda: admission.count_places() == 2)
    visitor.join(20)
    assert acted.is_set() and admission.count_places() == 0
