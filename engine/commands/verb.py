"""A verb of the command line."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

DONE, NOT_DONE = 0, 1
Result = dict[str, Any]


def done(result: Result) -> int:
    """The exit status of a verb that cannot fail once it has run: 0."""
    return DONE


@dataclass(frozen=True)
class Verb:
    """A verb. ``description`` is the text of --help; ``add`` adds the flags; ``run`` does the work, prints its progress
    and returns what --json prints, or raises CanopyError with the sentence why it cannot; ``summary`` is the text at
    the end, which may be empty; ``status`` is the exit status for a result."""

    description: str | None
    add: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], Result]
    summary: Callable[[Result], str]
    status: Callable[[Result], int] = done


def nothing_more(result: Result) -> str:
    """The empty summary of a verb that has printed everything already."""
    return ""
