"""A rig without a model: it answers with the recording of the same prompt, and measures nothing."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from engine.budget.cost import CostCurve
from engine.decoding.methods import METHODS
from engine.errors import RequestError, RigError
from engine.lab.findings import DoctorFinding
from engine.lab.settings import Conditions, Laboratory, Reading
from engine.lab.sweeping import Progress
from engine.lab.whatif import WhatIf
from engine.records import Precision, PromptRequest, Round
from engine.trace import Line, Piece, Trace
from explorer.lessons import Lesson, Library
from explorer.rig import OpenRig
from explorer.source import Source

MOST_AT_ONCE = 8  # browsers that are shown a recording in place of a run
RECORDINGS = "recordings"  # the name of what stands in for a rig


class Recordings:
    """Serves recorded runs through the ``Source`` protocol. ``reason`` says why there is no model."""

    def __init__(self, library: Library, reason: str) -> None:
        self._library = library
        self.reason = reason

    @property
    def rig(self) -> str:
        """No rig runs here."""
        return RECORDINGS

    @property
    def hardware(self) -> str:
        """Nothing is computed."""
        return "no model loaded"

    @property
    def methods(self) -> Sequence[str]:
        """All of them, so that the page looks the same; only recorded questions are answered."""
        return tuple(METHODS)

    @property
    def good_at(self) -> str:
        """Nothing is answered but what was recorded."""
        return ""

    @property
    def drafters(self) -> Sequence[str]:
        """None: recordings have drafters of their own."""
        return ()

    def usual_drafters(self, method: str) -> Sequence[str]:
        return ()

    def share(self, ask: PromptRequest) -> float:
        """See ``Source``: nothing is computed, so many browsers may be served at once."""
        return 1 / MOST_AT_ONCE

    def run(self, ask: PromptRequest) -> Generator[Line, None, None]:
        """The lines of the recording of the same prompt and method; of several, the one nearest in budget."""
        fitting = [lesson for lesson in self._library.lessons.values() if _answers(lesson, ask)]
        if not fitting:
            raise RequestError(
                f"{self.reason} Only recorded runs can be shown: pick one under Recordings, "
                f"or run a prompt that was recorded with the method {ask.method}.")
        nearest = min(fitting, key=lambda lesson: abs(lesson.trace.header.request.budget - ask.budget)).trace
        yield nearest.header
        yield from nearest.entries
        yield nearest.end

    def close(self) -> None:
        """See ``Source``: nothing is held."""


def _answers(lesson: Lesson, ask: PromptRequest) -> bool:
    header = lesson.trace.header
    asked = (header.turns, header.prompt.strip(), header.request.method)
    return asked == (ask.turns, ask.prompt.strip(), ask.method)


class NoInstruments:
    """No rig to measure with: the lab shows what was measured before, and says why nothing can be measured now."""

    def __init__(self, source: Source, reason: str, rig: str = "") -> None:
        self.rig = rig or source.rig
        self.reason = reason
        self.precision = Precision("")
        self.laboratory: Laboratory = _ClosedLaboratory(source, reason)

    def in_turns(self, asks: Sequence[PromptRequest]) -> AbstractContextManager[Sequence[Iterator[Round]]]:
        raise RigError(self.reason)

    def missing_processors(self) -> float:
        return 0.0

    def twin(self) -> None:
        """See ``Instruments``."""

    def cost(self, trace: Trace) -> CostCurve:
        raise RigError(self.reason)

    def concurrent_cost(self, trace: Trace, requests: int) -> CostCurve:
        raise RigError(self.reason)

    def known_cost(self, trace: Trace, measuring: bool = False) -> None:
        """See ``Instruments``."""

    def what_if(self, trace: Trace, progress: Progress) -> WhatIf:
        raise RigError(self.reason)

    def doctor(self, progress: Progress) -> Sequence[DoctorFinding]:
        raise RigError(self.reason)


class _ClosedLaboratory:
    def __init__(self, source: Source, reason: str) -> None:
        self.conditions = Conditions(source.rig, source.hardware, "")
        self.methods: Sequence[str] = tuple(name for name in source.methods if name in METHODS)
        self.drafters: Sequence[str] = tuple(source.drafters)
        self._reason = reason

    def measure(self, ask: PromptRequest) -> Reading:
        raise RigError(self._reason)

    def pieces(self, token_ids: Sequence[int]) -> Mapping[int, Piece]:
        return {}


def recorded_rig(library: Library, reason: str) -> OpenRig:
    """The recordings in a rig's place; ``reason`` says why there is no model."""
    source = Recordings(library, reason)
    return OpenRig(source, NoInstruments(source, reason))
