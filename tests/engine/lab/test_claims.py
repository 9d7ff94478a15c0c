"""A speed-up is withheld where it cannot be true or says nothing."""

from __future__ import annotations

from engine.lab.findings import speedup_withheld


def test_a_ratio_above_the_tokens_of_a_round_is_withheld() -> None:
    assert "larger than" in str(speedup_withheld(1.98, 3.1, 70, 80))
    assert "larger than" in str(speedup_withheld(9.64, 14.6, 12, 12))
    assert speedup_withheld(1.98, 1.4, 70, 80) is None


def test_a_run_that_mostly_decoded_plainly_has_no_speed_up() -> None:
    assert "Only 3 of 80" in str(speedup_withheld(1.6, 1.5, 3, 80))
    assert "No round" in str(speedup_withheld(1.0, 1.0, 0, 80))
    assert speedup_withheld(1.6, 1.5, 40, 80) is None


def test_a_busy_machine_gives_no_speed_up() -> None:
    assert "Other programs" in str(speedup_withheld(4.0, 2.0, 80, 80, busy=True))
