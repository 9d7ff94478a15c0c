"""What a server reported of the speculation of one request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ServerError

MOST_STEPS = 100_000  # of one answer
LARGEST = 2**31 - 1


@dataclass(frozen=True)
class ServerReport:
    """``accepted`` and ``drafted`` count tokens, one number per step in order; empty where the server does not report
    steps. ``width`` is the most that it drafts in a step, 0 if unknown; ``steps`` is their number, None if unknown;
    ``said`` is a sentence with its own figures."""

    said: str
    accepted: tuple[int, ...] = ()
    drafted: tuple[int, ...] = ()
    width: int = 0
    steps: int | None = None


def section(event: Mapping[str, Any], *names: str) -> Mapping[str, Any] | None:
    """The object at a path of names inside an object; None where there is none."""
    found: Any = event
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


def count(given: Mapping[str, Any], name: str) -> int | None:
    """A whole number of 0 or more; None where it is missing, ServerError where it is anything else."""
    value = given.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ServerError(f"The server reports {name} as {str(value)[:40]!r}; it has to be a whole number.")
    return value


def counts(given: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """A list of whole numbers of 0 or more; empty where it is missing, ServerError where it is anything else."""
    values = given.get(name)
    if values is None:
        return ()
    if not isinstance(values, list) or len(values) > MOST_STEPS:
        raise ServerError(f"The server reports {name} as {str(values)[:40]!r}; it has to be a list of at most "
                          f"{MOST_STEPS:,} numbers.")
    return tuple(count({name: value}, name) or 0 for value in values)


def rate(given: Mapping[str, Any], name: str) -> str:
    """A figure of the server's, to three digits; a question mark where it is missing."""
    value = given.get(name)
    return f"{value:.3g}" if type(value) in (int, float) else "?"
