"""Medians of calls, for benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import TypeVar

Given = TypeVar("Given")


def timed(call: Callable[[], object], repeats: int) -> float:
    """Median milliseconds, after two calls to warm up. The call ends when its work is done."""
    return timed_with(lambda: None, lambda _: call(), repeats)


def timed_with(prepare: Callable[[], Given], call: Callable[[Given], object], repeats: int) -> float:
    """The same of a call that takes what is prepared for it, off the clock."""
    spent = []
    for _ in range(repeats + 2):
        given = prepare()
        began = perf_counter()
        call(given)
        spent.append(1e3 * (perf_counter() - began))
    return median(spent[2:])
