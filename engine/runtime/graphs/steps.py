"""Measures how many milliseconds each step of a round takes."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from time import perf_counter
from types import MappingProxyType

import torch

from engine.runtime.graphs.graphs import GraphSteps
from engine.runtime.graphs.round import GraphRound

WARM_UPS = 2


class HostSteps:
    """Times each step by the host's clock, on devices where the host does the work."""

    def __init__(self, work: GraphRound, bucket: int) -> None:
        self.work, self.bucket = work, bucket

    @torch.inference_mode()
    def measured(self, rounds: int) -> dict[str, float]:
        """The median milliseconds of each step by name, over so many rounds that all begin at the same state."""
        state = self.work.board.state
        before = state.clone()
        spent: dict[str, list[float]] = {step.__name__: [] for _, step in self.work.steps}
        for _ in range(WARM_UPS + rounds):
            state.copy_(before)
            for _, step in self.work.steps:
                began = perf_counter()
                step(self.bucket)
                spent[step.__name__].append(1e3 * (perf_counter() - began))
        state.copy_(before)
        return {name: median(values[WARM_UPS:]) for name, values in spent.items()}


STEPPERS: Mapping[str, type[HostSteps] | type[GraphSteps]] = MappingProxyType({"cpu": HostSteps, "cuda": GraphSteps})
