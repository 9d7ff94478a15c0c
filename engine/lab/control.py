"""Pause, resume and stop a sweep or a race from another thread."""

from __future__ import annotations

from threading import Event
from time import perf_counter


class Control:
    """What the person wants. A run in hand is finished first; nothing new begins while paused or once stopped."""

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
        return not self._going.is_set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    @property
    def paused_seconds(self) -> float:
        """How long it was paused, all pauses together."""
        return self._paused_seconds + (perf_counter() - self._since if self.paused else 0.0)

    def may_go_on(self) -> bool:
        """Wait while paused; False once stopped."""
        self._going.wait()
        return not self._stopped.is_set()
