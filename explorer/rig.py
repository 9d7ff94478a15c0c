"""What the page needs of a rig: a source of rounds, and instruments to measure with.

The page knows a rig as these protocols alone, so that a live rig, a recording, a running server and a scripted rig are
the same to it. ``CurrentRig`` is the one that answers now, for all callers.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
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
    def good_at(self) -> str: ...  # which prompts it was trained for, in a sentence; empty if unknown

    @property
    def drafters(self) -> Collection[str]: ...

    def default_drafters(self, method: str) -> Sequence[str]:
        """Return the drafters, in order, that a method uses if the request names none."""

    def prepare(self, request: PromptRequest, interrupt: Callable[[], None] | None = None, *,
                cache_key: str | None = "") -> "PendingRun":
        """Check a request and return its run. ``cache_key``: whose cached texts it may start from. ``interrupt`` may be
        called in the middle of a pass; it raises to end the run.

        Raises CanopyError, with a message for the user, if it cannot be served.
        """

    def close(self) -> None:
        """Free caches; the weights stay. No run may be in progress."""


class PendingRun(Protocol):
    """A run whose request was checked. It starts when its ``lines`` are read."""

    @property
    def share(self) -> float:
        """The fraction of the machine that it takes; 1 for a run that has to be alone."""

    def lines(self) -> Generator[Line | None, None, None]:
        """Yield the run's lines; None while there is nothing new, so that the caller can stop.

        A second header restarts the run: earlier lines were wrong. Closing the generator stops the run and frees its
        caches. Raises CanopyError, with a message for the user, if the run fails.
        """


class Instruments(Protocol):
    """A loaded rig, to measure with. Every method needs the rig to itself: the caller waits for its turn first. Errors
    are CanopyErrors with a message for the user."""

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

    @property
    def gains(self) -> Mapping[int, tuple[float, float]]: ...  # by node budget: of slow, of fast prompts; {} if unknown

    def interleaved(self, requests: Sequence[PromptRequest],
                 interrupt: Callable[[], None]) -> AbstractContextManager[Sequence[Iterator[Round]]]:
        """Yield one round iterator per request, to alternate between. ``interrupt`` is polled; it raises to stop."""

    def missing_processors(self) -> float:
        """Return how many processors other programs took since the last call; 0.0 if unknown."""

    def twin(self, interrupt: Callable[[], None]) -> "Instruments | None":
        """Load the same rig in the other dtype; None if both do not fit into memory. ``interrupt`` is polled; it raises
        to stop."""

    def known_cost(self, trace: Trace) -> CostCurve | None:
        """Return a measured cost curve for about that context length, if there is one."""

    def measure_cost(self, trace: Trace, interrupt: Callable[[], None], *, again: bool = False) -> None:
        """Measure a cost curve for about that context length in seconds, unless there is one, or ``again``.
        ``interrupt`` is polled; it raises to stop."""

    def measure_cost_roughly(self, interrupt: Callable[[], None]) -> None:
        """Measure a cost curve of few sizes, which is known until there is another one."""

    def what_if(self, trace: Trace, progress: "Progress") -> WhatIf:
        """Forecast every method at every budget for the text of that run, with the cost curve."""

    def doctor(self, progress: "Progress") -> Sequence[DoctorFinding]:
        """Check why τ may be low; return the findings, the worst first."""


class CurrentRig:
    """The rig that serves the page. Read ``source`` and ``instruments`` at every use, since the rig may be replaced.

    ``first_load``: the job that loads the first rig, for which runs wait; None afterwards. ``note``: added to every
    run's notes. ``generation``: how often the rig was replaced.
    """

    def __init__(self, instruments: Instruments, first_load: Job | None = None) -> None:
        self.instruments = instruments
        self.first_load = first_load
        self.note = ""
        self.generation = 0

    @property
    def source(self) -> Source:
        return self.instruments.source

    def replace(self, instruments: Instruments, note: str = "") -> None:
        """Serve the page with another rig from now on. No run may be in progress."""
        self.instruments, self.note = instruments, note
        self.generation += 1

    def loading_message(self) -> str:
        """Return a progress message while the first rig loads, then ""."""
        if (load := self.first_load) is None:
            return ""
        done = "" if load.share is None else f" {load.share:.0%}."
        return f"The rig {load.name} is being loaded; your run begins when it is ready. {load.message}{done}"
