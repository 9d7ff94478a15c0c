"""Checks of user input, with error messages, and limits of values that are not options of a run."""

import re
from collections.abc import Callable, Collection
from typing import Any

from engine.errors import RequestError

MAX_REPEATS = 1000
MAX_SHOWN_LENGTH = 60  # characters of the input that an error message quotes
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
DECIMAL_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
TRIED_BUDGETS = (0, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MAX_CONCURRENCY = 64  # requests at once: every one of them holds a cache
TRIED_CONCURRENCY = (1, 2, 4, 8, 16)


def check_number(name: str, value: Any, low: float, high: float, *, inclusive: bool = True, or_zero: bool = False
                 ) -> float:
    """Return a number between ``low`` and ``high``, parsed if it is text. RequestErrors begin with ``name``."""
    allowed = f"a number from {low:g} to {high:g}" if inclusive else f"a number above {low:g} and at most {high:g}"
    return _checked(name, value, f"0 or {allowed}" if or_zero else allowed, lambda read: (
        low <= read <= high and (inclusive or read > low) or or_zero and read == 0))


def check_int(name: str, value: Any, minimum: int, maximum: int) -> int:
    """Return an integer between ``minimum`` and ``maximum``; see ``check_number``."""
    allowed = f"a whole number from {minimum} to {maximum}"
    return int(_checked(name, value, allowed, lambda read: minimum <= read <= maximum and read == int(read)))


def check_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Return the value if it is one of these words."""
    if isinstance(value, str) and value in choices:
        return value
    raise RequestError(f"{name} is {shown(value)}; choose one of {', '.join(choices)}.")


def _checked(name: str, value: Any, allowed: str, holds: Callable[[float], bool]) -> float:
    text = "" if value is None else str(value)
    if not text:
        raise RequestError(f"{name} is empty; it has to be {allowed}.")
    read = int(text) if WHOLE_NUMBER.fullmatch(text) else float(text) if DECIMAL_NUMBER.fullmatch(text) else None
    if read is None or not holds(read):
        raise RequestError(f"{name} is {shown(value)}; it has to be {allowed}.")
    return read


def shown(value: Any) -> str:
    """Format a value for an error message: a string in quotes, anything else as it is."""
    text = str(value)
    text = text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}…"
    return repr(text) if isinstance(value, str) else text
