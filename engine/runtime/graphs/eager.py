"""What runs a round: the protocol, and the eager implementation that works on any device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from engine.decoding.clock import Clock
from engine.records import Integers
from engine.runtime.graphs.report import Report
from engine.runtime.graphs.round import GraphRound


class Runner(Protocol):
    """Runs a round and copies its buffer to the host."""

    def run(self, bucket: int) -> tuple[Integers, Mapping[str, float]]:
        """The buffer of ``Report`` (n,) int32, which later rounds do not overwrite, and the seconds per stage."""


class EagerRunner:
    """Runs step by step and times each on the host's clock. On a CPU these are the stages' times; on any other device
    the time appears where the host first waits for the device, under ``other``."""

    def __init__(self, work: GraphRound, report: Report) -> None:
        self.work, self.report = work, report

    def run(self, bucket: int) -> tuple[Integers, Mapping[str, float]]:
        """See ``Runner``."""
        clock = Clock()
        for stage, step in self.work.steps:
            step(bucket)
            clock.lap(stage)
        return self.report.buffer(self.work.board).cpu().numpy(), clock.seconds()
