"""What a verb of the command line is."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

DONE, NOT_DONE = 0, 1
Result = dict[str, Any]


def done(result: Result) -> int:
    """The exit status of what has been done once it has run."""
    return DONE


@dataclass(frozen=True)
class Verb:
    """``description`` is what --help says; ``add`` adds the flags; ``run`` does the work, prints what people read
    meanwhile and returns what --json prints, or raises CanopyError with the sentence why it cannot; ``summary`` is what
    people read at the end, empty where all has been said; ``status`` is the exit status of the result."""

    description: str | None
    add: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], Result]
    summary: Callable[[Result], str]
    status: Callable[[Result], int] = done


def nothing_more(result: Result) -> str:
    """The summary of a verb that has said everything already."""
    return ""
