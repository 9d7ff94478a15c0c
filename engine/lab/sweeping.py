"""Runs a stored sweep: a crew measures the pending cells, and each result is written as it arrives. A sweep or a race
can be stopped from another thread, after the run in progress, and resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from threading import Event
from time import perf_counter
from typing import Protocol

from engine.errors import CanopyError, RequestError
from engine.lab.background import ConcurrentLaboratory
from engine.lab.planning import check
from engine.lab.settings import (
    BackgroundRequests,
    Cell,
    CellResult,
    Conditions,
    Laboratory,
    Reading,
    Setting,
    SweepPlan,
)
from engine.lab.store import Store, StoredSweep
from engine.records import PromptRequest

Hear = Callable[[str, float], None]  # (what is being done, the share of all steps that is done already)


class Progress:
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


WARMING_TOKENS = 8  # enough to touch every buffer of a setting once


@dataclass(frozen=True)
class Task:
    """A cell, its ask of the rig, and the requests that run beside it."""

    cell: Cell
    ask: PromptRequest
    background: BackgroundRequests = BackgroundRequests()

    def shortened(self, max_tokens: int) -> Task:
        """The task with texts of at most so many tokens."""
        def short(ask: PromptRequest) -> PromptRequest:
            return replace(ask, max_tokens=min(ask.max_tokens, max_tokens))
        background = replace(self.background, others=tuple(map(short, self.background.others)))
        return replace(self, ask=short(self.ask), background=background)


def task_of(plan: SweepPlan, cell: Cell) -> Task:
    """The task of a plan's cell."""
    return Task(cell, plan.ask(cell), plan.background(cell))


@dataclass(frozen=True)
class SweepProgress:
    """The progress after a cell: its result, how many cells are done, how many of these failed, how many there are in
    all, and the seconds that the rest will take (None until it can be judged)."""

    measured: CellResult
    done: int
    failed: int
    total: int
    seconds_left: float | None


class Crew(Protocol):
    """Measures tasks: in this process, or by workers elsewhere (``engine/measure/ray_workers.py``)."""

    @property
    def conditions(self) -> Conditions:
        """What it measures on."""

    @property
    def methods(self) -> Sequence[str]:
        """The methods that it can run."""

    @property
    def drafters(self) -> Sequence[str]:
        """The names of its drafters."""

    def work(self, tasks: Sequence[Task], stop: Event) -> Iterator[CellResult]:
        """Measure every task once, beginning nothing new once ``stop`` is set, and yield each result at once.

        The result of a task that cannot be served is a sentence. Tasks of one block (``block_of``) go to one device.
        """


class LocalCrew:
    """A crew of this process: one laboratory, one task after the other."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.laboratory = laboratory

    @property
    def conditions(self) -> Conditions:
        return self.laboratory.conditions

    @property
    def methods(self) -> Sequence[str]:
        return self.laboratory.methods

    @property
    def drafters(self) -> Sequence[str]:
        return self.laboratory.drafters

    def work(self, tasks: Sequence[Task], stop: Event) -> Iterator[CellResult]:
        warmed = warm(self.laboratory, tasks, stop)
        for task in tasks:
            if not warmed or stop.is_set():
                return
            yield measure(self.laboratory, task)


def warm(laboratory: Laboratory, tasks: Sequence[Task], stop: Event) -> bool:
    """Run every setting once for a few tokens, so that no first use is measured; return False if stopped on the way.

    A setting that cannot be served is passed over; its own cell will report it.
    """
    shortest: dict[Setting, Task] = {}
    for task in tasks:
        known = shortest.setdefault(task.cell.setting, task)
        if len(task.ask.prompt) < len(known.ask.prompt):
            shortest[task.cell.setting] = task
    for task in shortest.values():
        if stop.is_set():
            return False
        measure(laboratory, task.shortened(WARMING_TOKENS))
    return True


def measure(laboratory: Laboratory, task: Task) -> CellResult:
    """The result of one task: a reading, or a sentence that says why there is none."""
    hardware = laboratory.conditions.hardware
    try:
        return CellResult(task.cell, _reading(laboratory, task), hardware=hardware)
    except CanopyError as error:
        return CellResult(task.cell, None, str(error), hardware)


def _reading(laboratory: Laboratory, task: Task) -> Reading:
    if task.background.concurrency == 1:
        return laboratory.measure(task.ask)
    if isinstance(laboratory, ConcurrentLaboratory):
        return laboratory.measure_concurrent(task.ask, task.background)
    raise RequestError("This rig answers one request at a time; measure it with 1 request at once.")


def run_sweep(store: Store, number: int, crew: Crew, stop: Event) -> Iterator[SweepProgress]:
    """Measure the pending cells of a sweep. Every result is in the store before its progress is yielded.

    Raises RequestError where the crew cannot measure the sweep, or would measure under other conditions than the
    results so far, and ResultsError where a result cannot be written; earlier results stay.
    """
    stored = store.sweep(number)
    check(stored.plan, crew.methods, crew.drafters)
    check_conditions(stored, crew.conditions)
    tasks = [task_of(stored.plan, cell) for cell in store.pending(number)]
    failed = len([result for result in store.measured(number) if result.reading is None])
    done, pace = stored.done, TimeLeft([task.cell.setting for task in tasks])
    for result in crew.work(tasks, stop):
        if store.record(number, result):
            done, failed = done + 1, failed + (result.reading is None)
            yield SweepProgress(result, done, failed, len(stored.plan), pace.seconds_left(result))


def check_conditions(stored: StoredSweep, here: Conditions) -> None:
    """RequestError where a sweep was begun under other conditions, so that its speeds would not compare."""
    there = stored.conditions
    if there == here:
        return
    pairs = {"rig": (there.rig, here.rig), "hardware": (there.hardware, here.hardware),
             "dtype": (there.dtype, here.dtype)}
    for package in sorted({*there.versions, *here.versions}):
        pairs[package] = there.versions.get(package, "none"), here.versions.get(package, "none")
    seen = "; ".join(f"{name}: {before} then, {now} now" for name, (before, now) in pairs.items() if before != now)
    raise RequestError(f"Sweep {stored.number} was begun under other conditions ({seen}), so its figures and new ones "
                       "do not compare; begin a new sweep.")


class TimeLeft:
    """Estimates how long the pending cells will take: each setting's mean time, scaled by the ratio of wall-clock time
    to the times measured so far (prompts take time in between, several workers save it)."""

    def __init__(self, left: Sequence[Setting]) -> None:
        self._left = Counter(left)
        self._seconds: dict[Setting, list[float]] = {}
        self._first_seconds, self._first_moment = 0.0, 0.0

    def seconds_left(self, results: CellResult) -> float | None:
        """The seconds left after one more cell; None until any cell has a time."""
        self._left[results.cell.setting] -= 1
        now = perf_counter()
        if results.reading:
            seconds = results.reading.seconds + results.reading.prefill_seconds
            if not self._seconds:
                self._first_seconds, self._first_moment = seconds, now
            self._seconds.setdefault(results.cell.setting, []).append(seconds)
        spent = [seconds for second in self._seconds.values() for seconds in second]
        if not sum(spent):
            return None
        # the time before the first result, mostly warming up, does not recur
        since = sum(spent) - self._first_seconds
        scale = (now - self._first_moment) / since if since > 0 else 1.0
        return scale * sum(count * fmean(self._seconds.get(setting, spent)) for setting, count in self._left.items())
