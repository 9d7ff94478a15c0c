"""Prompt sets: shipped ones by name, or a user's file."""

from __future__ import annotations

from pathlib import Path

from engine.errors import RequestError
from engine.requests.prompts import Prompt, read_prompts

SHIPPED = Path(__file__).resolve().parents[2] / "assets" / "prompts"


def shipped_sets() -> list[str]:
    """The names of the shipped sets."""
    return sorted(path.stem for path in SHIPPED.glob("*.jsonl"))


def prompt_set(name: str, limit: int | None = None) -> tuple[Prompt, ...]:
    """The first ``limit`` prompts of a shipped set or of a file; RequestError says what is wrong, and in which line."""
    if limit is not None and limit < 1:
        raise RequestError(f"The limit is {limit} prompts; it has to be 1 or more.")
    path = file_of(name)
    try:
        there = path.exists()
    except (OSError, ValueError):  # a name that no file can have
        there = False
    if not there:
        raise RequestError(f"There is no prompt set and no file {name[:200]!r}; the sets are "
                           f"{', '.join(shipped_sets())}.")
    return tuple(read_prompts(path)[:limit])


def file_of(name: str) -> Path:
    """The file of a shipped set, or the user's, which may not exist."""
    return SHIPPED / f"{name}.jsonl" if name in shipped_sets() else Path(name)
