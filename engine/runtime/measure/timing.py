"""Medians of calls, and the seconds inside a module, for benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

from torch import nn

Given = TypeVar("Given")


def timed(call: Callable[[], object], repeats: int) -> float:
    """The median milliseconds of a call, after two calls to warm up. The call has to wait for its own work."""
    return timed_with(lambda: None, lambda _: call(), repeats)


def timed_with(prepare: Callable[[], Given], call: Callable[[Given], object], repeats: int) -> float:
    """The same for a call whose argument is prepared outside the timed part."""
    spent = []
    for _ in range(repeats + 2):
        given = prepare()
        began = perf_counter()
        call(given)
        spent.append(1e3 * (perf_counter() - began))
    return median(spent[2:])


class ForwardClock:
    """A module's forward pass, and the seconds spent inside it, summed. On a CPU a call returns when its work is done.

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
