"""What the page needs of a rig: a source of rounds (``source.py``), and instruments to measure with.

The page knows a rig as these protocols alone, so that a live rig, a scripted one and none at all are the same to it.
``AnsweringRig`` is the one that answers now, for all callers, while the rig behind it is loaded, fails, or changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol

from engine.budget.cost import CostCurve
from engine.errors import CancellationError
from engine.lab.findings import DoctorFinding
from engine.lab.settings import Laboratory
from engine.lab.sweeping import Progress
from engine.lab.whatif import WhatIf
from engine.records import Precision, PromptRequest, Round
from engine.trace import Trace
from explorer.source import Source
from explorer.view import View

Tell = Callable[[str, float | None], None]  # what is being done, and the share of it that is done where one is known


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


@dataclass(frozen=True)
class OpenRig:
    """A rig that is loaded: what answers prompts, and what measures."""

    source: Source
    instruments: Instruments


class RigOpener(Protocol):
    """Opens rigs."""

    def open(self, name: str, beside: Source, tell: Tell) -> OpenRig:
        """The rig of that name, while ``beside`` goes on answering. What ``tell`` raises ends it.

        Raises CanopyError, with a sentence for the person, where it cannot be opened.
        """

    def collect(self) -> None:
        """Free the memory of rigs that are no longer referenced."""


@dataclass(frozen=True)
class RigAccess:
    """What opens rigs, and the sentence why people may not choose one in the page, empty where they may."""

    opener: RigOpener | None = None
    closed: str = ""


NO_RIG_ACCESS = RigAccess(closed="The rig of this page was chosen when it was started.")


@dataclass
class RigLoad:
    """A rig that is being loaded, with its progress: ``share`` lies between 0 and 1, None where it is not known."""

    name: str
    message: str = "Looking at its files …"
    share: float | None = None
    stop: Event = field(default_factory=Event)
    ended: Event = field(default_factory=Event)

    def tell(self, message: str, share: float | None = None) -> None:
        """Take note of the progress; CancellationError where the person has cancelled."""
        if self.stop.is_set():
            raise CancellationError("The rig was not loaded; loading was cancelled.")
        self.message, self.share = message, share

    def cancel(self) -> None:
        """Give it up at the next step or piece of the download."""
        self.stop.set()
        self.message, self.share = "Cancelling after the current step …", None

    def sentence(self) -> str:
        """A sentence for the person who waits for it."""
        done = "" if self.share is None else f" {self.share:.0%}."
        return f"The rig {self.name} is being loaded; your run begins when it is ready. {self.message}{done}"

    def view(self) -> View:
        """For the browser."""
        return {"name": self.name, "message": self.message, "share": self.share}


class AnsweringRig:
    """What stands between the page and its rigs. Ask for ``source`` and ``instruments`` at every use and keep
    neither, since another rig may answer the next time.

    ``coming`` is the page's first rig while it is being loaded: runs wait for it. ``note`` is what every run says of
    the rig besides its own notes; ``changes`` counts how often another rig took the place.
    """

    def __init__(self, rig: OpenRig, coming: RigLoad | None = None) -> None:
        self._rig = rig
        self.coming = coming
        self.note = ""
        self.changes = 0

    @property
    def source(self) -> Source:
        """Answers prompts."""
        return self._rig.source

    @property
    def instruments(self) -> Instruments:
        """Measure."""
        return self._rig.instruments

    def take(self, rig: OpenRig, note: str = "") -> None:
        """Let another rig answer from now on. Nothing may be running."""
        self._rig, self.note = rig, note
        self.changes += 1
