"""Milliseconds of each step of a round, for who measures."""

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
    """Each step between two looks at the clock: the host does the work."""

    def __init__(self, work: GraphRound, bucket: int) -> None:
        self.work, self.bucket = work, bucket

    @torch.inference_mode()
    def measured(self, rounds: int) -> dict[str, float]:
        """Medians of so many rounds by the step's name; every round begins where the text stands."""
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
