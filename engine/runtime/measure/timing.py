"""Medians of calls, and the seconds inside a module, for benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

from torch import nn

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


class ForwardClock:
    """A module's forward pass, and the seconds inside it, summed. On the CPU the call is the work.

    Hooks would do, but a module with hooks takes a tenth of a percent of a round longer to be called.
    """

    def __init__(self, module: nn.Module) -> None:
        self.seconds = 0.0
        self._forward = module.forward
        module.forward = self._timed

    def _timed(self, *inputs: Any) -> Any:
        began = perf_counter()
        found = self._forward(*inputs)
        self.seconds += perf_counter() - began
        return found
