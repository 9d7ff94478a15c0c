"""What runs a round: the protocol, and the way that any device knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from engine.decoding.clock import Clock
from engine.records import Integers
from engine.runtime.graphs.report import Report
from engine.runtime.graphs.round import GraphRound


class Runner(Protocol):
    """Runs a round and brings its buffer to the host."""

    def run(self, bucket: int) -> tuple[Integers, Mapping[str, float]]:
        """The buffer of ``Report`` as an array of its own, and seconds per stage."""


class Eager:
    """Step by step, each timed on its own, as a host that does the work itself can. Where a device does it, the time
    that it takes shows where the host first waits for it, under ``other``."""

    def __init__(self, work: GraphRound, report: Report) -> None:
        self.work, self.report = work, report

    def run(self, bucket: int) -> tuple[Integers, Mapping[str, float]]:
        """See ``Runner``."""
        clock = Clock()
        for stage, step in self.work.steps:
            step(bucket)
            clock.lap(stage)
        return self.report.buffer(self.work.board).cpu().numpy(), clock.seconds()
