"""Pause, resume and stop a sweep or a race from another thread; report the progress of a long measurement."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from time import perf_counter

Hear = Callable[[str, float], None]  # (what is being done, the share of all steps that is done already)


class Steps:
    """The steps of a long measurement, counted. ``hear`` is called with each; an exception that it raises ends the
    measurement."""

    def __init__(self, hear: Hear | None = None) -> None:
        self._hear = hear
        self._done = self._total = 0

    def expect(self, count: int) -> None:
        """Add to the number of steps to come."""
        self._total += count

    def begin(self, message: str) -> None:
        """Report that the next step begins; ``message`` says what it does."""
        if self._hear:
            self._hear(message, min(1.0, self._done / max(1, self._total)))
        self._done += 1


class Control:
    """Whether a measurement may go on, as the person has asked. A run in progress is finished first; nothing new begins
    while paused or once stopped."""

    def __init__(self) -> None:
        self._going, self._stopped = Event(), Event()
        self._going.set()
        self._paused_seconds, self._since = 0.0, 0.0

    def pause(self) -> None:
        """Begin nothing new for now."""
        if not self.paused:
            self._since = perf_counter()
            self._going.clear()

    def resume(self) -> None:
        """Go on."""
        self._paused_seconds = self.paused_seconds
        self._going.set()

    def stop(self) -> None:
        """Begin nothing new; what was measured is kept."""
        self._stopped.set()
        self.resume()

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return not self._going.is_set()

    @property
    def stopped(self) -> bool:
        """Whether it was stopped."""
        return self._stopped.is_set()

    @property
    def paused_seconds(self) -> float:
        """The length of all pauses together."""
        return self._paused_seconds + (perf_counter() - self._since if self.paused else 0.0)

    def may_go_on(self) -> bool:
        """Wait while paused; False once stopped."""
        self._going.wait()
        return not self._stopped.is_set()
