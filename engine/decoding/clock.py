"""Measures where the time of a round goes without disturbing it: no synchronisation, two floats per lap."""

from __future__ import annotations

from time import perf_counter

from engine.records import STAGES


class Clock:
    """The laps of one round. Each of the engine's stages ends when the host has its result, so a lap needs no
    synchronisation."""

    def __init__(self) -> None:
        self._last = perf_counter()
        self._seconds = dict.fromkeys(STAGES, 0.0)

    def lap(self, stage: str) -> None:
        """Count the time since the last lap to ``stage``."""
        now = perf_counter()
        self._seconds[stage] += now - self._last
        self._last = now

    def seconds(self) -> dict[str, float]:
        """Seconds per stage, ``other`` being the time since the last lap. Ends the clock."""
        self.lap("other")
        return self._seconds
