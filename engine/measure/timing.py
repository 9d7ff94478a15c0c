"""The seconds inside a module, for benchmarks."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from torch import nn


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
