"""Whether a prompt is of a kind that a rig was trained for, by how it is worded. Torch-free."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from engine.errors import RigError

LOOKED_AT = 1500  # characters: matching an expression may take time quadratic in them
SAID = "lies outside what the"  # part of the sentence below, by which it is recognised in a header's note


def outside(rig: str, good_at: str) -> str:
    """The sentence for a prompt that is of none of the rig's kinds."""
    return f"This prompt {SAID} {rig} was trained for. {good_at}"


def says_outside(note: str) -> bool:
    """Whether a note holds that sentence."""
    return SAID in note


def familiar(prompt: str, kinds: Sequence[str]) -> bool:
    """Whether one of the regular expressions matches in the beginning of the prompt, ignoring case."""
    return any(compiled(kind).search(prompt[:LOOKED_AT]) for kind in kinds)


@lru_cache(maxsize=64)
def compiled(kind: str) -> re.Pattern[str]:
    """The compiled expression; RigError where it is not a regular expression."""
    try:
        return re.compile(kind, re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise RigError(f"{kind[:60]!r} is not a regular expression: {error}.") from error
