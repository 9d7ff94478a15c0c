"""How long an address has to wait after failures."""

from __future__ import annotations

import pytest

from explorer.security import logins
from explorer.security.logins import FREE_FAILURES, LONGEST_WAIT_SECONDS, Logins, neighbourhood


class Clock:
    """Stands still until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_wait_doubles_and_ends() -> None:
    clock = Clock()
    made, waits = Logins(clock), []
    for _ in range(FREE_FAILURES + 8):
        made.attempt("10.0.0.1")
        waits.append(made.wait_seconds("10.0.0.1"))
    assert waits == [0.0] * FREE_FAILURES + [2, 4, 8, 16, 32, 60, 60, 60] and max(waits) == LONGEST_WAIT_SECONDS
    assert made.wait_seconds("10.0.0.2") == 0
    clock.now += LONGEST_WAIT_SECONDS
    assert made.wait_seconds("10.0.0.1") == 0
    made.succeeded("10.0.0.1")
    made.attempt("10.0.0.1")
    assert made.wait_seconds("10.0.0.1") == 0


def test_a_household_is_one_address() -> None:
    assert neighbourhood("2001:db8:1:2::1") == neighbourhood("2001:db8:1:2:ffff::9") != neighbourhood("2001:db8:1:3::1")
    assert neighbourhood("::ffff:10.0.0.1") == neighbourhood("10.0.0.1") != neighbourhood("10.0.0.2")
    assert neighbourhood("testclient") == "testclient"


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "MOST_ADDRESSES", 3)
    made = Logins(Clock())
    for number in range(5):
        for _ in range(FREE_FAILURES + 1):
            made.attempt(f"10.0.0.{number}")
    assert [made.wait_seconds(f"10.0.0.{number}") for number in range(5)] == [0, 0, 2, 2, 2]
