"""While other programs want the processors, OpenMP's threads sleep at their barriers instead of spinning.

How long they spin is fixed when the library is loaded (``engine/machine/threads.py``), with one exception: GNU's OpenMP
lets all of them sleep at once as long as it manages more threads than there are processors. A second team of threads,
which a thread of Python's own calls up once and then does nothing with, makes it so; when that thread ends, they spin
again.
With another OpenMP nothing changes, and the spinning is short anyway.
"""

from __future__ import annotations

from threading import Event, Thread
from time import perf_counter

import torch

from engine.machine.threads import OtherWork, processors

LOOK_SECONDS = 0.25  # between two looks at what others do
FORSAKEN_SECONDS = 2.0  # without a pass: then nobody decodes, and the second team goes
CROWDED, CLEARED = 0.5, 0.25  # processors that are wanted and missing: from where on threads sleep, up to where not
CALL_UP = 2**20  # numbers that torch adds up with all its threads


class Waiting:
    """Asked before each pass on a CPU; looks around now and then, and costs a glance at the clock otherwise."""

    def __init__(self, others: OtherWork | None = None) -> None:
        self._others = others or OtherWork()
        self._next = perf_counter() + LOOK_SECONDS
        self._second: SecondTeam | None = None

    @property
    def asleep(self) -> bool:
        """Whether threads sleep at their barriers at once."""
        return self._second is not None and self._second.is_alive()

    def adapt(self) -> None:
        """Sleep at barriers while the processors are wanted elsewhere, spin while they are not."""
        now = perf_counter()
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        missing = self._others.since_last_asked() - (len(processors()) - torch.get_num_threads())
        if self.asleep and self._second:
            self._second.wanted.set() if missing >= CLEARED else self._second.stop()
        elif missing >= CROWDED and torch.get_num_threads() > 1:
            self._second = SecondTeam()


class SecondTeam(Thread):
    """A thread with a team of OpenMP threads of its own, all of them idle; it ends when told to, or forsaken."""

    def __init__(self) -> None:
        super().__init__(name="second team", daemon=True)
        self.wanted, self._over = Event(), False
        self.start()

    def stop(self) -> None:
        """End soon, and with it the team."""
        self._over = True
        self.wanted.set()

    def run(self) -> None:
        """Call the team up, then wait as long as somebody asks for it."""
        torch.zeros(CALL_UP).add_(1)
        while self.wanted.wait(FORSAKEN_SECONDS) and not self._over:
            self.wanted.clear()
