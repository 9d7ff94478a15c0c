"""What the lab needs of a live rig. The page knows it as this alone, so a scripted one serves its tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.errors import RigError
from engine.lab.cost import CostCurve
from engine.lab.findings import DoctorFinding
from engine.lab.forecast import WhatIf
from engine.lab.settings import Conditions, Laboratory, Reading
from engine.records import Ask
from engine.trace import Piece, Trace
from explorer.source import Source


class Bench(Protocol):
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
    def laboratory(self) -> Laboratory:
        """What sweeps and races measure with."""

    def cost(self, trace: Trace) -> CostCurve:
        """What a pass costs at the length and sampling of that run; measured when first asked for, then kept."""

    def what_if(self, trace: Trace) -> WhatIf:
        """The forecasts of every method at every budget for the text of that run, with the cost curve."""

    def doctor(self) -> Sequence[DoctorFinding]:
        """Why τ may be low: what was checked, the worst first."""


class Absent:
    """No rig: the lab shows what was measured before and says why nothing can be measured now."""

    def __init__(self, source: Source, reason: str) -> None:
        self.rig = source.rig
        self.reason = reason
        self.laboratory: Laboratory = _Closed(source, reason)

    def cost(self, trace: Trace) -> CostCurve:
        """See ``Bench``."""
        raise RigError(self.reason)

    def what_if(self, trace: Trace) -> WhatIf:
        """See ``Bench``."""
        raise RigError(self.reason)

    def doctor(self) -> Sequence[DoctorFinding]:
        """See ``Bench``."""
        raise RigError(self.reason)


class _Closed:
    def __init__(self, source: Source, reason: str) -> None:
        self.conditions = Conditions(source.rig, source.hardware, "")
        self.methods: Sequence[str] = tuple(source.methods)
        self._reason = reason

    def measure(self, ask: Ask) -> Reading:
        raise RigError(self._reason)

    def pieces(self, token_ids: Sequence[int]) -> Mapping[int, Piece]:
        return {}
