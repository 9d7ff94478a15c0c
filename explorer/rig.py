"""What the page needs of a rig: a source of rounds, and instruments to measure with.

The page knows a rig as these protocols alone, so that a live rig, a recording, a running server and a scripted rig are
the same to it. ``CurrentRig`` is the one that answers now, for all callers.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from engine.budget.cost import CostCurve
from engine.lab.findings import DoctorFinding
from engine.lab.replay import WhatIf
from engine.records import Precision, PromptRequest, Round
from engine.trace import Line, Trace
from explorer.jobs import Job

if TYPE_CHECKING:
    from engine.lab.sweeping import Laboratory, Progress  # imports pydantic, which the first page does without


class Source(Protocol):
    """Something that answers prompts with a header, an entry per round and an end."""

    @property
    def name(self) -> str: ...  # as the page's badge shows it

    @property
    def hardware(self) -> str: ...  # in words

    @property
    def methods(self) -> Sequence[str]: ...  # in the order of the page

    @property
    def good_at(self) -> str: ...  # what prompts it was trained for, in a sentence; empty if that is not known

    @property
    def drafters(self) -> Collection[str]: ...

    def default_drafters(self, method: str) -> Sequence[str]:
        """The drafters of a method if the ask names none, in order."""

    def prepare(self, ask: PromptRequest, *, asker: str | None = "") -> "PreparedRun":
        """Check a request and return its run, which begins with its first line. ``asker`` is whose cache it may use.

        Raises CanopyError, with a message for the user, if it cannot be served.
        """

    def close(self) -> None:
        """Free what it holds besides its weights, since another source takes its place. No run may be in progress."""


class PreparedRun(Protocol):
    """A run that was checked and has not begun."""

    @property
    def share(self) -> float:
        """The fraction of the machine that it takes, of what all concurrent runs share: 1 if it has to be alone."""

    def lines(self) -> Generator[Line | None, None, None]:
        """Yield the run's lines; None while there is nothing new, so that the caller can stop.

        A second header restarts the run: earlier lines were wrong. Closing the generator stops the run and frees its
        caches. Raises CanopyError, with a message for the user, if the run fails.
        """


class Instruments(Protocol):
    """A loaded rig, to measure with. Every method needs the rig to itself: the caller waits for its turn first.

    Raises CanopyError, with a message for the user, if something cannot be done.
    """

    @property
    def source(self) -> Source: ...

    @property
    def opened_as(self) -> str: ...  # the name that the command line opens the rig by

    @property
    def reason(self) -> str: ...  # why nothing can be measured; empty if it can

    @property
    def precision(self) -> Precision: ...  # the dtype that plain decoding and trees run in, and why

    @property
    def laboratory(self) -> "Laboratory": ...  # what sweeps and races measure with

    def interleaved(self, asks: Sequence[PromptRequest],
                 interrupt: Callable[[], None]) -> AbstractContextManager[Sequence[Iterator[Round]]]:
        """Yield one round iterator per request, to alternate between. ``interrupt`` is polled; it raises to stop."""

    def missing_processors(self) -> float:
        """How many processors other programs have taken from the rig since the last call; 0.0 if that is not known."""

    def twin(self, interrupt: Callable[[], None]) -> "Instruments | None":
        """Load the same rig in the other dtype; None if both do not fit into memory. ``interrupt`` is polled; it raises
        to stop."""

    def known_cost(self, trace: Trace) -> CostCurve | None:
        """Return a measured cost curve for about that context length, if there is one."""

    def measure_cost(self, trace: Trace, interrupt: Callable[[], None], *, again: bool = False) -> None:
        """Measure a cost curve for about that context length in a second, unless there is one, or ``again``.
        ``interrupt`` is polled; it raises to stop."""

    def what_if(self, trace: Trace, progress: "Progress") -> WhatIf:
        """The forecasts of every method at every budget for the text of that run, with the cost curve."""

    def doctor(self, progress: "Progress") -> Sequence[DoctorFinding]:
        """Why τ may be low: what was checked, the worst first."""


class CurrentRig:
    """The rig that currently serves the page. Read ``source`` and ``instruments`` at every use; the rig may be
    replaced.

    ``coming``: the first rig while it loads; runs wait for it. ``note``: added to every run's notes. ``changes``: how
    often the rig was replaced.
    """

    def __init__(self, instruments: Instruments, coming: Job | None = None) -> None:
        self.instruments = instruments
        self.coming = coming
        self.note = ""
        self.changes = 0

    @property
    def source(self) -> Source:
        return self.instruments.source

    def take(self, instruments: Instruments, note: str = "") -> None:
        """Let another rig answer from now on. Nothing may be running."""
        self.instruments, self.note = instruments, note
        self.changes += 1

    def waiting(self) -> str:
        """Return a progress message while the first rig loads, then ""."""
        if (load := self.coming) is None:
            return ""
        done = "" if load.share is None else f" {load.share:.0%}."
        return f"The rig {load.name} is being loaded; your run begins when it is ready. {load.message}{done}"
