"""When a measured speed-up may be claimed."""

from __future__ import annotations

STEADY = 0.35  # of its median: a larger spread of plain decoding's speed comes from the machine


def speedup_withheld(tau: float, ratio: float, drafted_rounds: int, rounds: int, busy: bool = False) -> str | None:
    """Why a measured ratio to plain decoding's speed is not said, in a sentence; None where it may be.

    A round verifies at least one row and drafts besides, so it does not take less time than a round of plain decoding:
    ``tau`` tokens a round are a speed-up of ``tau`` at the most, and a larger ratio shows that plain decoding was held
    up. Where fewer of the ``rounds`` verified a draft than not, most of what is compared is plain decoding on both
    sides. ``busy``: other programs used the machine meanwhile.
    """
    if not rounds or not drafted_rounds:
        return "No round verified a draft, so there is no speed-up to speak of."
    if 2 * drafted_rounds < rounds:
        return (f"Only {drafted_rounds} of {rounds} rounds verified a draft, so the run was mostly plain decoding, and "
                "a ratio to it would be chance.")
    if busy:
        return "Other programs used this machine meanwhile, so no speed-up is said."
    if ratio > tau:
        return ("The measured ratio is larger than the tokens that a round adds, which no tree can reach: plain "
                "decoding was held up while it was measured.")
    return None


def unsteady(least: float, median: float, most: float) -> bool:
    """Whether plain decoding's speeds, over prompts or repeats, show that other programs used the machine: a token
    takes plain decoding equally long, whatever the prompt."""
    return most - least > STEADY * median
