"""The rig that answers now, behind everything that asks one: a source, a bench and a laboratory that stay while the
rig behind them is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.lab.cost import CostCurve
from engine.lab.findings import DoctorFinding
from engine.lab.forecast import WhatIf
from engine.lab.settings import Conditions, Laboratory, Reading
from engine.records import Ask
from engine.trace import Line, Piece, Trace
from explorer.lab_bench import Bench
from explorer.source import Source

Tell = Callable[[str, float | None], None]  # what is being done, and the share of it that is done where one is known


class Opened(Protocol):
    """A rig as what answers prompts, and as what is measured with."""

    @property
    def source(self) -> Source:
        """Answers prompts."""

    @property
    def bench(self) -> Bench:
        """Is measured with."""


class Rigs(Protocol):
    """Whoever opens rigs."""

    def open(self, name: str, beside: Source, tell: Tell) -> Opened:
        """The rig of that name, while ``beside`` goes on answering. What ``tell`` raises ends it.

        Raises CanopyError, with a sentence for the person, where it cannot be opened.
        """

    def collect(self) -> None:
        """Free the memory of rigs that nobody refers to any more."""


@dataclass(frozen=True)
class Choosing:
    """Who opens other rigs, or the sentence why nobody does."""

    rigs: Rigs | None = None
    closed: str = ""


FIXED_RIG = Choosing(closed="The rig of this page was chosen when it was started.")


@dataclass(frozen=True)
class Started:
    """What the page starts with."""

    source: Source
    bench: Bench


class Serving:
    """See ``Source``: the one that answers now."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.changes = 0
        self.bench = ServedBench(self)

    @property
    def opened(self) -> Opened:
        """The rig that answers now."""
        return self._opened

    def take(self, opened: Opened) -> None:
        """Let another rig answer from now on. Nothing may be running."""
        self._opened = opened
        self.changes += 1

    @property
    def rig(self) -> str:
        return self._opened.source.rig

    @property
    def hardware(self) -> str:
        return self._opened.source.hardware

    @property
    def methods(self) -> Sequence[str]:
        return self._opened.source.methods

    @property
    def good_at(self) -> str:
        return self._opened.source.good_at

    @property
    def heads(self) -> Sequence[str]:
        return self._opened.source.heads

    def usual_heads(self, method: str) -> Sequence[str]:
        """See ``Source``."""
        return self._opened.source.usual_heads(method)

    def run(self, ask: Ask) -> Iterator[Line]:
        """See ``Source``."""
        return self._opened.source.run(ask)

    def close(self) -> None:
        """See ``Source``."""
        self._opened.source.close()


class ServedBench:
    """See ``Bench``: that of the rig that answers now."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self.laboratory: Laboratory = _ServedLaboratory(serving)

    @property
    def rig(self) -> str:
        return self._serving.opened.bench.rig

    @property
    def reason(self) -> str:
        return self._serving.opened.bench.reason

    def cost(self, trace: Trace) -> CostCurve:
        """See ``Bench``."""
        return self._serving.opened.bench.cost(trace)

    def what_if(self, trace: Trace) -> WhatIf:
        """See ``Bench``."""
        return self._serving.opened.bench.what_if(trace)

    def doctor(self) -> Sequence[DoctorFinding]:
        """See ``Bench``."""
        return self._serving.opened.bench.doctor()


class _ServedLaboratory:
    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    @property
    def conditions(self) -> Conditions:
        return self._serving.opened.bench.laboratory.conditions

    @property
    def methods(self) -> Sequence[str]:
        return self._serving.opened.bench.laboratory.methods

    def measure(self, ask: Ask) -> Reading:
        return self._serving.opened.bench.laboratory.measure(ask)

    def pieces(self, token_ids: Sequence[int]) -> Mapping[int, Piece]:
        return self._serving.opened.bench.laboratory.pieces(token_ids)
