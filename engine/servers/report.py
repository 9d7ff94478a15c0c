"""What a server reported of the speculation of one request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ServerError
from engine.recorder import LARGEST, seen

MOST_STEPS = 2**16  # of one answer; whether its text has so many tokens is seen when the two are joined
MOST_DRAFTED = 1024  # tokens in one step; the drafters in use draft 16, n-grams some hundreds
LARGEST_RATE = 1e6  # of a mean, or tokens a second


@dataclass(frozen=True)
class ServerReport:
    """``accepted`` and ``drafted`` count tokens, one number per step in order; empty where the server does not report
    steps. ``width`` is the most that it drafts in a step, 0 if unknown; ``steps`` is their number, None if unknown;
    of ``tried`` drafted tokens ``kept`` were accepted in all, None if unknown; ``said`` is a sentence with its own
    figures. ServerError where more were accepted than drafted."""

    said: str
    accepted: tuple[int, ...] = ()
    drafted: tuple[int, ...] = ()
    width: int = 0
    steps: int | None = None
    kept: int | None = None
    tried: int | None = None

    def __post_init__(self) -> None:
        if self.kept is not None and self.tried is not None and self.kept > self.tried:
            raise ServerError(f"The server reports that {self.kept} of {self.tried} drafted tokens were accepted; that "
                              "is more than all of them.")


def section(event: Mapping[str, Any], *names: str) -> Mapping[str, Any] | None:
    """The object at a path of names inside an object; None where there is none."""
    found: Any = event
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


def count(given: Mapping[str, Any], name: str, most: int = LARGEST) -> int | None:
    """A whole number from 0 to ``most``; None where it is missing, ServerError where it is anything else."""
    value = given.get(name)
    return None if value is None else _whole(value, name, most)


def counts(given: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """The tokens of each step, from 0 to ``MOST_DRAFTED``; empty where they are missing, ServerError where they are
    anything else."""
    values = given.get(name)
    if values is None:
        return ()
    if not isinstance(values, list) or len(values) > MOST_STEPS:
        raise ServerError(f"The server reports {name} as {seen(values)}; it has to be a list of at most "
                          f"{MOST_STEPS:,} numbers.")
    return tuple(_whole(value, name, MOST_DRAFTED) for value in values)


def _whole(value: Any, name: str, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ServerError(f"The server reports {name} as {seen(value)}; it has to be a whole number from 0 to "
                          f"{most:,}.")
    return value


def rate(given: Mapping[str, Any], name: str) -> str:
    """A figure of the server's, to three digits; a question mark where it is missing or cannot be one."""
    value: Any = given.get(name)
    return f"{value:.3g}" if type(value) in (int, float) and 0 <= value <= LARGEST_RATE else "?"


def whole(text: str) -> str:
    """The text with a question mark for each lone surrogate, which JSON can name and nothing can encode."""
    return text.encode("utf8", "replace").decode()
