"""Bounds of the numbers that a person may choose, the budgets to try, and the check of a number with its sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from engine.errors import RequestError
from engine.records import Sampling

MAX_NODES = 4096  # a pass over more rows than this is a prefill, not a draft tree
MAX_TOKENS = 1_000_000  # of one text: more than any model's context
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 100.0  # beyond, logits overflow float32 or are all equal
MAX_INT64 = 2**63 - 1  # of a seed or top-k: what a trace file and a tensor can hold
MAX_REPEATS = 1000
MAX_SHOWN_LENGTH = 60  # characters of what was typed, in a sentence about it
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
DECIMAL_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
TRIED_BUDGETS = (0, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MAX_CONCURRENCY = 64  # requests at once: every one of them holds a cache
TRIED_CONCURRENCY = (1, 2, 4, 8, 16)


def check_number(name: str, value: Any, least: float, most: float, zero: bool = False) -> float:
    """A number from ``least`` to ``most``, or 0 where ``zero``, as it was given, typed or sent; RequestError begins
    with ``name``."""
    allowed = f"{'0 or ' if zero else ''}a number from {least:g} to {most:g}"
    return _checked(name, value, allowed, lambda read: least <= read <= most or zero and read == 0)


def check_int(name: str, value: Any, least: int, most: int) -> int:
    """A whole number from ``least`` to ``most``; see ``number``."""
    allowed = f"a whole number from {least} to {most}"
    return int(_checked(name, value, allowed, lambda read: least <= read <= most and read == int(read)))


def top_p(name: str, value: Any) -> float:
    """A number above 0 and at most 1."""
    return _checked(name, value, "a number above 0 and at most 1", lambda read: 0 < read <= 1)


def _checked(name: str, value: Any, allowed: str, holds: Callable[[float], bool]) -> float:
    text = "" if value is None else str(value)
    if not text:
        raise RequestError(f"{name} is empty; it has to be {allowed}.")
    read = int(text) if WHOLE_NUMBER.fullmatch(text) else float(text) if DECIMAL_NUMBER.fullmatch(text) else None
    if read is None or not holds(read):
        raise RequestError(f"{name} is {shown(value)}; it has to be {allowed}.")
    return read


def shown(value: Any) -> str:
    """A number as it is, anything else as quoted in a sentence."""
    text = str(value)
    text = text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}…"
    return text if isinstance(value, int | float) else repr(text)


def check_sampling(sampling: Sampling) -> Sampling:
    """The sampling, its numbers read from text if they are; RequestError for one that sampling cannot use."""
    return Sampling(
        check_number("The temperature", sampling.temperature, MIN_TEMPERATURE, MAX_TEMPERATURE, zero=True),
        check_int("top-k", sampling.top_k, 0, MAX_INT64), top_p("top-p", sampling.top_p),
        check_int("The seed", sampling.seed, 0, MAX_INT64))
