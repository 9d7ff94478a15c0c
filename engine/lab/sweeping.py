"""Run a stored sweep: the cells that are still to do go to a crew, and each result is written as it arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from time import perf_counter
from typing import Protocol

from engine.errors import CanopyError, RequestError
from engine.lab.company import JointLaboratory
from engine.lab.control import Control
from engine.lab.planning import check
from engine.lab.settings import (
    Cell,
    Company,
    Conditions,
    Laboratory,
    Measured,
    Reading,
    Setting,
    SweepPlan,
)
from engine.lab.store import Store, Stored
from engine.records import Ask

WARMING_TOKENS = 8  # enough to touch every buffer of a setting once


@dataclass(frozen=True)
class Task:
    """A cell, what is asked of the rig for it, and what is answered beside it."""

    cell: Cell
    ask: Ask
    company: Company = Company()

    def shortened(self, max_tokens: int) -> Task:
        """The same with texts of so many tokens at most."""
        def short(ask: Ask) -> Ask:
            return replace(ask, max_tokens=min(ask.max_tokens, max_tokens))
        company = replace(self.company, others=tuple(map(short, self.company.others)))
        return replace(self, ask=short(self.ask), company=company)


def task_of(plan: SweepPlan, cell: Cell) -> Task:
    """What a plan asks for in a cell."""
    return Task(cell, plan.ask(cell), plan.company(cell))


@dataclass(frozen=True)
class Progress:
    """After every cell: what came of it, how many are done of how many, how many of these failed, and the seconds
    that the rest will take (None until there is something to judge by)."""

    measured: Measured
    done: int
    failed: int
    total: int
    seconds_left: float | None


class Crew(Protocol):
    """Whoever measures: this process, or workers elsewhere (``engine/runtime/measure/ray_workers.py``)."""

    @property
    def conditions(self) -> Conditions:
        """What it measures on."""

    @property
    def methods(self) -> Sequence[str]:
        """The methods that it can run."""

    @property
    def drafters(self) -> Sequence[str]:
        """The names of its drafters."""

    def work(self, tasks: Sequence[Task], control: Control) -> Iterator[Measured]:
        """Measure every task once and yield what came of it as soon as it is there, until the control says stop.

        A task that cannot be served yields its sentence. Tasks of one block (``order.block``) go to one device.
        """


class Alone:
    """A crew of this process: one laboratory, one task after the other."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.laboratory = laboratory

    @property
    def conditions(self) -> Conditions:
        """See ``Crew``."""
        return self.laboratory.conditions

    @property
    def methods(self) -> Sequence[str]:
        """See ``Crew``."""
        return self.laboratory.methods

    @property
    def drafters(self) -> Sequence[str]:
        """See ``Crew``."""
        return self.laboratory.drafters

    def work(self, tasks: Sequence[Task], control: Control) -> Iterator[Measured]:
        """See ``Crew``."""
        warmed = warm(self.laboratory, tasks, control)
        for task in tasks:
            if not (warmed and control.may_go_on()):
                return
            yield measure(self.laboratory, task)


def warm(laboratory: Laboratory, tasks: Sequence[Task], control: Control) -> bool:
    """Run every setting once for a few tokens, so that no first touch is measured; False if stopped on the way.

    What cannot be served is left for its own cell to say.
    """
    shortest: dict[Setting, Task] = {}
    for task in tasks:
        known = shortest.setdefault(task.cell.setting, task)
        if len(task.ask.prompt) < len(known.ask.prompt):
            shortest[task.cell.setting] = task
    for task in shortest.values():
        if not control.may_go_on():
            return False
        measure(laboratory, task.shortened(WARMING_TOKENS))
    return True


def measure(laboratory: Laboratory, task: Task) -> Measured:
    """What comes of one task: a reading, or the sentence why there is none."""
    hardware = laboratory.conditions.hardware
    try:
        return Measured(task.cell, _reading(laboratory, task), hardware=hardware)
    except CanopyError as error:
        return Measured(task.cell, None, str(error), hardware)


def _reading(laboratory: Laboratory, task: Task) -> Reading:
    if task.company.at_once == 1:
        return laboratory.measure(task.ask)
    if isinstance(laboratory, JointLaboratory):
        return laboratory.measure_among(task.ask, task.company)
    raise RequestError("This rig answers one request at a time; measure it with 1 request at once.")


def run_sweep(store: Store, number: int, crew: Crew, control: Control) -> Iterator[Progress]:
    """Measure what is still to do of a sweep. Every result is in the store before its progress is yielded.

    Raises RequestError where the crew cannot measure the sweep, or measures on something else than what is there
    already, and ResultsError where a result cannot be written; what was written before stays.
    """
    stored = store.sweep(number)
    check(stored.plan, crew.methods, crew.drafters)
    check_conditions(stored, crew.conditions)
    tasks = [task_of(stored.plan, cell) for cell in store.pending(number)]
    failed = len([found for found in store.measured(number) if found.reading is None])
    done, pace = stored.done, TimeLeft([task.cell.setting for task in tasks], control)
    for found in crew.work(tasks, control):
        if store.record(number, found):
            done, failed = done + 1, failed + (found.reading is None)
            yield Progress(found, done, failed, len(stored.plan), pace.seconds_left(found))


def check_conditions(stored: Stored, here: Conditions) -> None:
    """RequestError where a sweep was begun on something else: its speeds would not compare."""
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
    """How long the cells that are left will take: each setting's own mean time, scaled by how the wall clock goes
    against the times measured so far (prompts in between, several workers at once)."""

    def __init__(self, left: Sequence[Setting], control: Control) -> None:
        self._left, self._control = Counter(left), control
        self._seconds: dict[Setting, list[float]] = {}
        self._first_seconds, self._first_moment = 0.0, 0.0

    def seconds_left(self, found: Measured) -> float | None:
        """After one more cell; None until any has a time."""
        self._left[found.cell.setting] -= 1
        now = perf_counter() - self._control.paused_seconds
        if found.reading:
            seconds = found.reading.seconds + found.reading.prefill_seconds
            if not self._seconds:
                self._first_seconds, self._first_moment = seconds, now
            self._seconds.setdefault(found.cell.setting, []).append(seconds)
        spent = [seconds for each in self._seconds.values() for seconds in each]
        if not sum(spent):
            return None
        # what came before the first result, warming up above all, does not come again
        since = sum(spent) - self._first_seconds
        scale = (now - self._first_moment) / since if since > 0 else 1.0
        return scale * sum(count * fmean(self._seconds.get(setting, spent)) for setting, count in self._left.items())
