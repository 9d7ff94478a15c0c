"""Judges by its wording whether a prompt is of a kind that a rig was trained for. Torch-free."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from engine.errors import RigError

LOOKED_AT = 1500  # characters: matching an expression may take time quadratic in them
SAID = "lies outside what the"  # a part of the sentence below by which a header's note is recognised


def outside(rig: str, good_at: str) -> str:
    """The sentence for a prompt of no kind that the rig was trained for."""
    return f"This prompt {SAID} {rig} was trained for. {good_at}"


def says_outside(note: str) -> bool:
    """Whether a note holds that sentence."""
    return SAID in note


def familiar(prompt: str, kinds: Sequence[str]) -> bool:
    """Whether one of these regular expressions matches at the start of the prompt, ignoring case."""
    return any(compiled(kind).search(prompt[:LOOKED_AT]) for kind in kinds)


@lru_cache(maxsize=64)
def compiled(kind: str) -> re.Pattern[str]:
    """The compiled expression; RigError where it is not a regular expression."""
    try:
        return re.compile(kind, re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise RigError(f"{kind[:60]!r} is not a regular expression: {error}.") from error
