"""Compares two texts: the first difference, if any, and how close the target's choice was there."""

from __future__ import annotations

from dataclasses import dataclass

from engine.lab.settings import Reading


@dataclass(frozen=True)
class Difference:
    """The first place in the text, counted from 0, where the two differ: the token of each, and the gap in nats between
    the target's first and second token there (of the baseline's run; None at place 0, which the prefill chose)."""

    place: int
    token: int
    baseline_token: int
    gap: float | None


def first_difference(reading: Reading, baseline: Reading) -> Difference | None:
    """The first difference of two texts; None if they are the same. A text that ends early differs in the token that
    would have followed, if there is one."""
    if reading.token_ids == baseline.token_ids:
        return None
    ours, theirs = ((*each.token_ids, each.bonus) for each in (reading, baseline))
    pairs = enumerate(zip(ours, theirs, strict=False))
    place = next((place for place, (one, other) in pairs if one != other), None)
    if place is None:
        return None
    return Difference(place, ours[place], theirs[place], baseline.gaps[place - 1] if place else None)
