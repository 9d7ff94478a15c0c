"""What the page needs of a rig: a source of rounds (``source.py``), and instruments to measure with.

The page knows a rig as these protocols alone, so that a live rig, a scripted one and none at all are the same to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from engine.budget.cost import CostCurve
from engine.lab.findings import DoctorFinding
from engine.lab.settings import Laboratory
from engine.lab.sweeping import Progress
from engine.lab.whatif import WhatIf
from engine.records import Precision, PromptRequest, Round
from engine.trace import Trace
from explorer.source import Source


class Instruments(Protocol):
    """A rig to measure with. Every method needs the rig to itself: the caller waits for its turn first.

    Raises CanopyError, with a sentence for the person, where something cannot be done.
    """

    @property
    def rig(self) -> str:
        """The name that the command line opens the rig by."""

    @property
    def reason(self) -> str:
        """Why nothing can be measured; empty where it can."""

    @property
    def precision(self) -> Precision:
        """The dtype that plain decoding and trees run in, and why."""

    @property
    def laboratory(self) -> Laboratory:
        """What sweeps and races measure with."""

    def in_turns(self, asks: Sequence[PromptRequest]) -> AbstractContextManager[Sequence[Iterator[Round]]]:
        """The rounds of several asks, to be taken a few at a time from either."""

    def missing_processors(self) -> float:
        """How many processors the rig lacked since this was last asked, because other programs used them; 0.0 where
        that is not known."""

    def twin(self) -> Instruments | None:
        """The same rig, loaded in the other precision; None where it is too large to be held twice."""

    def cost(self, trace: Trace) -> CostCurve:
        """What a forward pass costs at the length and sampling of that run; measured at the first call, then kept."""

    def concurrent_cost(self, trace: Trace, requests: int) -> CostCurve:
        """The same for rounds that this number of requests like it share."""

    def known_cost(self, trace: Trace, measuring: bool = False) -> CostCurve | None:
        """The same at about that length, as far as it is known: nothing is measured for it, unless ``measuring`` a
        second for it is allowed."""

    def what_if(self, trace: Trace, progress: Progress) -> WhatIf:
        """The forecasts of every method at every budget for the text of that run, with the cost curve."""

    def doctor(self, progress: Progress) -> Sequence[DoctorFinding]:
        """Why τ may be low: what was checked, the worst first."""


class OpenRig(Protocol):
    """A rig that is loaded."""

    @property
    def source(self) -> Source:
        """Answers prompts."""

    @property
    def instruments(self) -> Instruments:
        """Measure."""


@dataclass(frozen=True)
class LoadedRig:
    """See ``OpenRig``: its two parts side by side."""

    source: Source
    instruments: Instruments
