"""Pause, resume and stop a sweep or a race from another thread; report the progress of a long measurement."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from time import perf_counter

Hear = Callable[[str, float], None]  # what is being done, and the share of the whole that was done before


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
        """The next one begins; ``message`` says what is done in it."""
        if self._hear:
            self._hear(message, min(1.0, self._done / max(1, self._total)))
        self._done += 1


class Control:
    """What the person has asked for. A run in progress is finished first; nothing new begins while paused or once
    stopped."""

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
        """Whether it waits."""
        return not self._going.is_set()

    @property
    def stopped(self) -> bool:
        """Whether it was told to stop."""
        return self._stopped.is_set()

    @property
    def paused_seconds(self) -> float:
        """The length of all pauses together."""
        return self._paused_seconds + (perf_counter() - self._since if self.paused else 0.0)

    def may_go_on(self) -> bool:
        """Wait while paused; False once stopped."""
        self._going.wait()
        return not self._stopped.is_set()
