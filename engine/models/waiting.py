"""Lets OpenMP's threads sleep at their barriers instead of spinning while other programs want the processors.

How long they spin is fixed when the library is loaded (``engine/machine/threads.py``), with one exception: GNU's OpenMP
lets all threads sleep at once while it manages more of them than there are processors. A second, idle team of threads,
started from a Python thread of its own, brings that about; when that Python thread ends, the others spin again. With
any other OpenMP nothing changes, and the spinning is short anyway.
"""

from __future__ import annotations

from threading import Event, Thread
from time import perf_counter

import torch

from engine.machine.threads import CROWDED, OtherWork

LOOK_SECONDS = 0.25  # between two looks at the load of other programs
FORSAKEN_SECONDS = 2.0  # without a pass, after which the second team ends
CLEARED = 0.25  # missing processors: threads sleep from ``CROWDED`` on, and spin again below this
CALL_UP = 2**20  # numbers, enough for torch to add them with all its threads


class WaitingPolicy:
    """Decides before each pass on a CPU whether threads sleep or spin. It looks at the load every ``LOOK_SECONDS``, and
    otherwise costs one reading of the clock."""

    def __init__(self, others: OtherWork | None = None) -> None:
        self._others = others or OtherWork()
        self._next = perf_counter() + LOOK_SECONDS
        self._second: OmpSpinSuppressor | None = None

    @property
    def asleep(self) -> bool:
        """Whether threads sleep as soon as they reach a barrier."""
        return self._second is not None and self._second.is_alive()

    def adapt(self) -> None:
        """Let threads sleep at barriers while other programs want the processors, and spin while they do not."""
        now = perf_counter()
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        missing = self._others.missing(torch.get_num_threads())
        if self.asleep and self._second:
            self._second.wanted.set() if missing >= CLEARED else self._second.stop()
        elif missing >= CROWDED and torch.get_num_threads() > 1:
            self._second = OmpSpinSuppressor()


class OmpSpinSuppressor(Thread):
    """A thread with an idle team of OpenMP threads. It ends when stopped, or after ``FORSAKEN_SECONDS`` unwanted."""

    def __init__(self) -> None:
        super().__init__(name="second team", daemon=True)
        self.wanted, self._over = Event(), False
        self.start()

    def stop(self) -> None:
        """End the thread soon, and with it the team."""
        self._over = True
        self.wanted.set()

    def run(self) -> None:
        """Start the team, then wait for as long as it is wanted."""
        torch.zeros(CALL_UP).add_(1)
        while self.wanted.wait(FORSAKEN_SECONDS) and not self._over:
            self.wanted.clear()
