"""What runs the rounds of a rig: the host's loop or, on a GPU and on request, CUDA-graph rounds."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from importlib import import_module
from typing import Protocol

from engine.decoding.budget_policy import BudgetAllocator, BudgetPolicy
from engine.decoding.loop import decode
from engine.decoding.plan import Drafter
from engine.records import Request, Round
from engine.runtime.target.inference import rounds_in_inference_mode
from engine.runtime.target.target import TorchTarget

CUDA_GRAPHS = "CANOPY_CUDA_GRAPHS"  # in the environment: 1 for CUDA-graph rounds, which have not run on a GPU yet


class Loop(Protocol):
    """Decodes requests with one target."""

    def decode(self, request: Request, drafters: Sequence[Drafter]) -> Generator[Round, None, None]:
        """See ``engine.decoding.loop.decode``."""

    def close(self) -> None:
        """Free what is kept between runs."""


class HostLoop:
    """``engine.decoding.loop.decode``: the host takes part in every step of a round."""

    def __init__(self, target: TorchTarget) -> None:
        self.target = target

    def decode(self, request: Request, drafters: Sequence[Drafter], policy: BudgetPolicy | None = None,
               allocator: BudgetAllocator | None = None) -> Generator[Round, None, None]:
        """See ``Loop``; ``policy`` and ``allocator`` as in ``engine.decoding.loop.decode``."""
        return rounds_in_inference_mode(decode(request, self.target, drafters, policy, allocator))

    def close(self) -> None:
        """See ``Loop``; here nothing is kept."""


def loop_on(target: TorchTarget) -> Loop:
    """The loop for the target's device. ``runtime/graphs`` is imported only on request."""
    if target.device.type == "cuda" and os.environ.get(CUDA_GRAPHS) == "1":
        graphed: Loop = import_module("engine.runtime.graphs.decode").GraphLoop(target)
        return graphed
    return HostLoop(target)
