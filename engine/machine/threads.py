"""Settles how many threads a CPU pass takes and how they wait for each other, before torch is imported. Torch-free.

Threads that meet at a barrier spin or sleep. Spinning without end, the OpenMP default, costs nothing on an idle
machine; if other programs run, a spinning thread holds the processor that the awaited one needs, and a round takes
fifty times as long. Sleeping at once costs an idle machine half its speed on a small model. So threads spin for half a
millisecond and then sleep, and ``models/device.py`` lets them sleep at once while other programs want the processors.
Figures: ``LOG.md``.

A daemon thread that is inside torch when Python ends aborts the process. So threads that run torch are
``TorchThread``s, and programs end with ``exit_now``.
"""

import atexit
import os
import sys
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import NoReturn

WAITING = {  # GNU's OpenMP, then LLVM's and Intel's (milliseconds)
    "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}
NUMBER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
QUOTAS = (Path("/sys/fs/cgroup/cpu.max"), Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"))
SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
STATISTICS = Path("/proc/stat")
BUSY_THRESHOLD = 0.5  # missing processors: the machine is busy
BUSY_FIELDS = (0, 1, 2, 5, 6)  # user, nice, system and interrupts; not idle time or waiting for a disk


def configure_openmp(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set OpenMP's wait policy and thread count, unless the environment does. Call it before importing torch."""
    for name, value in WAITING.items():
        environment.setdefault(name, value)
    if not any(name in environment for name in NUMBER):
        environment[NUMBER[0]] = str(cores())


def cores() -> int:
    """Return how many threads can compute at once: whole cores of this process, within its container's quota."""
    allowed = processors()
    cores = len({_siblings(number) for number in allowed}) if allowed else os.cpu_count() or 1
    return max(1, min(cores, _quota()))


def processors() -> tuple[int, ...]:
    """Return the numbers of the processors that this process may use; () if the system does not say."""
    if not hasattr(os, "sched_getaffinity"):
        return ()
    return tuple(sorted(os.sched_getaffinity(0)))


def _siblings(number: int) -> str:
    """Return the processors that share a core with this one, in the system's own notation."""
    return _read(Path(SIBLINGS.format(number))) or str(number)


def _quota() -> int:
    """Return how many processors the container may use, rounded up; 2¹⁵ without a limit."""
    for path in QUOTAS:
        fields = _read(path).split()
        if not fields:
            continue
        period = fields[1] if len(fields) > 1 else _read(path.with_name("cpu.cfs_period_us")) or "100000"
        if fields[0].isdigit() and period.isdigit() and int(period):
            return -(-int(fields[0]) // int(period))
    return 2**15


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf8").strip()
    except OSError:
        return ""


class TorchThread(Thread):
    """A daemon thread that runs torch: when the process exits, ``stop`` is called and the thread is waited for."""

    def __init__(self, name: str, work: Callable[[], None], stop: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._work, self._end = work, stop
        atexit.register(self._leave)

    def run(self) -> None:
        try:
            self._work()
        finally:
            atexit.unregister(self._leave)

    def _leave(self) -> None:
        self._end()
        self.join()


def exit_now(status: int) -> NoReturn:
    """Exit with this status; threads that still run are neither waited for nor unwound."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed by its reader
            stream.flush()
    os._exit(status)


class OtherWork:
    """Measures how many of this process's processors other programs keep busy. Known on Linux only."""

    def __init__(self, allowed: Iterable[int] = ()) -> None:
        self._names = {f"cpu{number}" for number in allowed or processors()}
        self._second = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
        self._last = self._look()

    def busy_processors(self) -> float:
        """Return how many processors others used, on average, since the last call; 0.0 if unknown."""
        before, self._last = self._last, self._look()
        passed, busy, here = (now - then for now, then in zip(self._last, before, strict=True))
        return max(0.0, (busy - here) / passed) if passed > 0 else 0.0

    def missing(self, threads: int | None = None) -> float:
        """Return how many processors that many threads (default: ``cores()``) lacked since the last call. From
        ``BUSY_THRESHOLD`` on, the machine is busy."""
        return self.busy_processors() - (len(processors()) - (cores() if threads is None else threads))

    def _look(self) -> tuple[float, float, float]:
        """Read, in seconds, the clock, the time the processors were busy, and this process's processor time."""
        ticks = 0
        for line in _read(STATISTICS).splitlines():
            name, *fields = line.split()
            if name in self._names:
                ticks += sum(int(fields[number]) for number in BUSY_FIELDS)
        times = os.times()
        return perf_counter(), ticks / self._second, times.user + times.system
