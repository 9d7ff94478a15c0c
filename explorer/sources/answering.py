"""The rig that answers now: one object for all callers, while the rig behind it is loaded, fails, or changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol

from engine.errors import CancellationError
from explorer.rig import Instruments, OpenRig
from explorer.source import Source
from explorer.view import View

Tell = Callable[[str, float | None], None]  # what is being done, and the share of it that is done where one is known


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
