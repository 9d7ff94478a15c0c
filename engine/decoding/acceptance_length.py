"""τ, defined in one place: how many tokens a round commits."""

from __future__ import annotations


def mean_length(tokens: int, rounds: int) -> float:
    """τ, the mean acceptance length: tokens committed per round, the root included (paper 001, section 9); 0 without a
    round."""
    return tokens / rounds if rounds else 0.0
