"""Whether a prompt is of a kind that a rig was trained for, by how it is worded. Torch-free."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from engine.errors import RigError

LOOKED_AT = 1500  # characters: an expression may take the square of them
SAID = "lies outside what the"  # of the sentence below, by which a header's note is known to say it


def outside(rig: str, good_at: str) -> str:
    """The sentence for a prompt that is of no such kind."""
    return f"This prompt {SAID} {rig} was trained for. {good_at}"


def says_outside(note: str) -> bool:
    """Whether a note holds that sentence."""
    return SAID in note


def familiar(prompt: str, kinds: Sequence[str]) -> bool:
    """Whether one of the regular expressions finds something in the beginning of the prompt, whatever its case."""
    return any(compiled(kind).search(prompt[:LOOKED_AT]) for kind in kinds)


@lru_cache(maxsize=64)
def compiled(kind: str) -> re.Pattern[str]:
    """The expression; RigError where it is none."""
    try:
        return re.compile(kind, re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise RigError(f"{kind[:60]!r} is not a regular expression: {error}.") from error
