"""A server that did not answer is asked again, less and less often, until it does or is no longer wanted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat
from threading import Event, Thread
from time import monotonic

from explorer.sources.answering import RigLoad
from explorer.view import View

PAUSES = (2.0, 5.0, 10.0, 30.0, 60.0)  # seconds before the next try; the last for all that follow


class ServerRetry:
    """``attempt`` tries to let the server answer, and returns the sentence why it does not, empty where it does."""

    def __init__(self, name: str, attempt: Callable[[RigLoad], str]) -> None:
        self.load = RigLoad(name)
        self._attempt = attempt
        self._wake = Event()
        self._tries, self._last = 1, monotonic()
        self._trying = False
        Thread(target=self._go_on, name="server retry", daemon=True).start()

    def now(self) -> None:
        """Try at once."""
        self._wake.set()

    def stop(self) -> None:
        """Try no more; an attempt in progress ends at its next step."""
        self.load.cancel()
        self._wake.set()

    def view(self) -> View:
        """For the browser: its address, and a sentence on what has been tried."""
        if self._trying:
            said = f"{self.load.name} is being asked again now."
        else:
            times = "once" if self._tries == 1 else f"{self._tries} times"
            ago = f"{monotonic() - self._last:.0f} s ago"
            said = (f"{self.load.name} has been asked {times}, the last time {ago}; this "
                    "page goes on asking, and takes it when it answers.")
        return {"name": self.load.name, "said": said}

    def _go_on(self) -> None:
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            self._wake.wait(pause)
            self._wake.clear()
            if self.load.control.stopped:
                return
            self._trying = True
            failure = self._attempt(self.load)
            self._tries, self._last, self._trying = self._tries + 1, monotonic(), False
            if not failure:
                return
