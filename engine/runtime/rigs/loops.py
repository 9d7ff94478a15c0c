"""What runs the rounds of a rig: the host's loop, and on a GPU, where it is asked for, rounds as CUDA graphs."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from importlib import import_module
from typing import Protocol

from engine.decoding.budget_policy import Allotment, BudgetPolicy
from engine.decoding.loop import decode
from engine.decoding.plan import Drafter
from engine.records import Request, Round
from engine.runtime.target.inference import each_inferring
from engine.runtime.target.target import TorchTarget

CUDA_GRAPHS = "CANOPY_CUDA_GRAPHS"  # in the environment: 1 for rounds as CUDA graphs, which no GPU has run yet


class Loop(Protocol):
    """Decodes requests with one target."""

    def decode(self, request: Request, drafters: Sequence[Drafter]) -> Generator[Round, None, None]:
        """See ``engine.decoding.loop.decode``."""

    def close(self) -> None:
        """Free what is kept from run to run."""


class HostLoop:
    """``engine.decoding.loop.decode``: between drafting and acceptance the host decides."""

    def __init__(self, target: TorchTarget) -> None:
        self.target = target

    def decode(self, request: Request, drafters: Sequence[Drafter], policy: BudgetPolicy | None = None,
               allotment: Allotment | None = None) -> Generator[Round, None, None]:
        """See ``Loop``; ``policy`` and ``allotment`` as in ``engine.decoding.loop.decode``."""
        return each_inferring(decode(request, self.target, drafters, policy, allotment))

    def close(self) -> None:
        """See ``Loop``: every run frees its own."""


def loop_on(target: TorchTarget) -> Loop:
    """The loop for the target's device. The room of CUDA graphs is imported only where it is asked for."""
    if target.device.type == "cuda" and os.environ.get(CUDA_GRAPHS) == "1":
        graphed: Loop = import_module("engine.runtime.graphs.decode").GraphLoop(target)
        return graphed
    return HostLoop(target)
