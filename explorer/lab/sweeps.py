"""The page's sweeps: one at a time, in the same queue as all runs, kept in one results file.

A sweep has the machine to itself from its first cell to its last. A paused one leaves the queue, and joins it
again when it is resumed. It runs without the browser, and can be resumed after a restart of the app.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from threading import Lock
from time import monotonic
from typing import TypedDict

from engine.errors import RequestError
from engine.lab.report import sweep_command
from engine.lab.settings import CellResult, SweepPlan
from engine.lab.store import Results, Store, StoredSweep
from engine.lab.summary import Summary, summarise
from engine.lab.sweeping import LocalWorkers, run_sweep
from engine.requests.admission import Admission
from explorer.bounded_dict import BoundedDict
from explorer.jobs import Job
from explorer.lab.recorded import FIRST_RECORDED, RecordedSweep, is_recorded, shipped
from explorer.rig import CurrentRig

MAX_SWEEPS_IN_MEMORY = 3  # the results of earlier ones are read from the file
SECONDS_BETWEEN_READS = 5.0  # of the results file, into which other programs measure, too
MAX_LISTED = 40
NO_RESULTS = "Nothing has been measured yet; press Measure first."


class SweepLine(TypedDict):
    """A sweep in the list of sweeps."""

    number: int
    rig: str
    other_rig: bool
    concurrency: int
    started: str
    done: int
    total: int
    state: str


class SweepProgress(TypedDict):
    """The selected sweep, None if there is none, and the list of sweeps. ``other_rig``: the rig that it was measured
    on, if that is not the loaded one. ``other_sweep_running``: whether another sweep is being measured."""

    sweep: int | None
    sweeps: list[SweepLine]
    state: str
    message: str
    done: int
    total: int
    failed: int
    seconds_left: float | None
    recorded: str
    other_rig: str
    other_sweep_running: bool
    command: str


@dataclass(frozen=True)
class SweepView:
    """The displayed sweep, if there is one, with its results so far. ``other_rig``: whether it was measured on a rig
    other than the loaded one."""

    stored: StoredSweep | None = None
    measured: Sequence[CellResult] = ()
    summary: Summary = Summary(())
    other_rig: bool = False

    @property
    def recorded(self) -> str:
        """A sentence on when and where a shipped sweep was measured; "" for any other sweep."""
        if self.stored is None or not is_recorded(self.stored.number):
            return ""
        conditions, date = self.stored.conditions, self.stored.started[:10]
        return f"Recorded on {date}: {conditions.rig}, {conditions.hardware}, {conditions.dtype}."


class Sweeps:
    """The sweeps of a results file, including the running one: a ``Job`` whose result is a list of ``CellResult``."""

    def __init__(self, rig: CurrentRig, admission: Admission, path: Path) -> None:
        self._rig = rig
        self._admission = admission
        self._path = path
        self._lock = Lock()
        self._jobs: dict[int, Job] = {}  # of sweeps that this process has started or resumed
        self._listed: list[StoredSweep] = []
        # number -> (results summarised, summary)
        self._summaries = BoundedDict[int, tuple[int, Summary]](16)
        self._next_read = 0.0  # when the list is read again

    @cached_property
    def recorded(self) -> Sequence[RecordedSweep]:
        """The sweeps that ship with the page, numbered from 0 downwards. They are read at first use."""
        return shipped()

    def start(self, plan: SweepPlan) -> int:
        """Begin a sweep; its number. RequestError while another one is measuring."""
        with self._lock:
            self._check_none_running()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with Store(self._path) as store:
                number = store.begin(plan, self._rig.instruments.laboratory.conditions)
            self._begin(number, Job(total=len(plan), result=[], needs_polling=False))
        return number

    def resume(self, number: int) -> None:
        """Go on with one that was paused, stopped, or cut off with the app. RequestError if it was begun on another
        rig."""
        with self._lock:
            self._check_none_running()
            with Store(self._path) as store:
                stored, measured = store.sweep(number), store.measured(number)
            answering = self._rig.instruments.opened_as
            if stored.plan.rig != answering:
                raise RequestError(f"Sweep {number} was begun on the rig {stored.plan.rig}, and {answering} answers "
                                   "now; choose that rig, then resume.")
            self._begin(number, Job(done=stored.done, total=len(stored.plan), result=measured, needs_polling=False))

    def _begin(self, number: int, job: Job) -> None:
        others = [other for other in self._jobs if other != number][1 - MAX_SWEEPS_IN_MEMORY:]
        self._jobs = {**{other: self._jobs[other] for other in others}, number: job}
        job.begin(self._admission, lambda job: self._measure(number, job))

    def _measure(self, number: int, job: Job) -> list[CellResult]:
        job.message = "Warming up: every setting runs once, unmeasured."
        with Store(self._path) as store:
            for progress in run_sweep(store, number, LocalWorkers(self._rig.instruments.laboratory), job.stop):
                job.result.append(progress.measured)
                job.done, job.seconds_left, job.message = progress.done, progress.seconds_left, ""
        measured: list[CellResult] = job.result
        return measured

    def end(self, number: int, state: str) -> None:
        """Finish the current run, then end as ``paused`` or ``stopped``; meanwhile others may use the machine."""
        with self._lock:
            job = self._jobs.get(number)
            if job is None:
                raise RequestError(f"The sweep {number} is not being measured.")
            job.if_stopped = state
            if job.open:
                job.stop.set()
            else:
                job.state = state

    def delete(self, number: int) -> None:
        """Forget a sweep and all its results; RequestError while it is being measured."""
        with self._lock:
            job = self._jobs.get(number)
            if job is not None and job.open:
                raise RequestError(f"Sweep {number} is being measured ({job.done} of {job.total} runs); stop it before "
                                   "it is deleted.")
            with Store(self._path) as store:
                store.sweep(number)
                store.clear(number)
            self._jobs.pop(number, None)
            self._summaries.pop(number, None)
            self._next_read = 0.0

    def _check_none_running(self) -> None:
        if (number := self.active) is not None:
            job = self._jobs[number]
            raise RequestError(f"Sweep {number} is being measured ({job.done} of {job.total} runs); stop it, or wait "
                               "until it is done.")

    @property
    def active(self) -> int | None:
        return next((number for number, job in self._jobs.items() if job.open), None)

    def list_sweeps(self) -> list[StoredSweep]:
        """Return the sweeps of the results file, the oldest first."""
        started = self.active is not None and all(stored.number != self.active for stored in self._listed)
        if started or monotonic() >= self._next_read:
            listed = []
            if self._path.is_file() and self._path.stat().st_size:  # a full disk leaves it empty
                with Results(self._path) as results:
                    listed = results.sweeps()
            self._listed, self._next_read = listed, monotonic() + SECONDS_BETWEEN_READS
        return self._listed

    def _all(self) -> list[StoredSweep]:
        return [*(recorded.stored for recorded in self.recorded), *self.list_sweeps()]

    def select(self, requested: object) -> StoredSweep | None:
        """Return the requested sweep, else the running one, else the loaded rig's latest (shipped ones are oldest)."""
        by_number = {stored.number: stored for stored in self._all()}
        loaded = [number for number, stored in by_number.items() if not self.of_another_rig(stored)]
        numbers = [requested, self.active, max(loaded, default=None)]
        return next((by_number[number] for number in numbers if isinstance(number, int) and number in by_number), None)

    def of_another_rig(self, stored: StoredSweep) -> bool:
        return bool(stored.conditions.rig != self._rig.instruments.laboratory.conditions.rig)

    def view(self, requested: object, concurrent: bool = False) -> SweepView:
        """Return the selected sweep with its results. With ``concurrent``, a shipped sweep of single requests is
        replaced by the rig's shipped sweep of concurrent ones."""
        stored = self.select(requested)
        if stored is None:
            return SweepView()
        if concurrent and is_recorded(stored.number) and _concurrency(stored) == 1:
            candidates = [sweep.stored for sweep in self.recorded if _concurrency(sweep.stored) > 1]
            stored = next((sweep for sweep in candidates if sweep.conditions.rig == stored.conditions.rig), stored)
        measured = self.results_of(stored.number)
        cells, summary = self._summaries.get(stored.number, (-1, Summary(())))
        if cells != len(measured):
            summary = summarise(stored.plan.settings, measured)
            self._summaries[stored.number] = len(measured), summary
        return SweepView(stored, measured, summary, self.of_another_rig(stored))

    def results_of(self, number: int) -> list[CellResult]:
        if job := self._jobs.get(number):
            return list(job.result)
        if is_recorded(number):
            return self.recorded[FIRST_RECORDED - number].measured
        with Results(self._path) as results:
            measured: list[CellResult] = results.measured(number)
        return measured

    def progress_view(self, requested: object) -> SweepProgress:
        stored = self.select(requested)
        sweeps = [*reversed(self.list_sweeps()[-MAX_LISTED:]), *(recorded.stored for recorded in self.recorded)]
        listed = [self._line(sweep) for sweep in sweeps]
        if stored is None:
            return {"sweep": None, "sweeps": listed, "state": "none", "message": "", "done": 0, "total": 0, "failed": 0,
                    "seconds_left": None, "recorded": "", "other_rig": "", "other_sweep_running": False,
                    "command": ""}
        job, line = self._jobs.get(stored.number), self._line(stored)
        return {
            "state": line["state"], "done": line["done"], "total": line["total"], "sweep": stored.number,
            "sweeps": listed, "command": sweep_command(stored.plan),
            "other_rig": stored.conditions.rig if self.of_another_rig(stored) else "",
            "recorded": SweepView(stored).recorded,
            "message": job.message if job else "", "seconds_left": job.seconds_left if job else None,
            "failed": sum(result.reading is None for result in list(job.result)) if job else 0,
            "other_sweep_running": self.active not in (None, stored.number)}

    def _line(self, stored: StoredSweep) -> SweepLine:
        job = self._jobs.get(stored.number)
        done = job.done if job else stored.done
        end_state = "done" if done == len(stored.plan) else "stopped"
        return {"number": stored.number, "rig": stored.conditions.rig, "other_rig": self.of_another_rig(stored),
                "concurrency": _concurrency(stored), "started": stored.started, "done": done,
                "total": len(stored.plan), "state": job.state if job else end_state}


def _concurrency(stored: StoredSweep) -> int:
    return max(setting.concurrency for setting in stored.plan.settings)


def seconds_per_run(measured: Sequence[CellResult]) -> float | None:
    """Return the mean seconds of a single run, prefill included; None without results. A run among n concurrent ones
    counts as (n + 1) / 2 single runs, because rounds are shared and longer."""
    spent = [2 * (result.reading.seconds + result.reading.prefill_seconds) / (result.cell.setting.concurrency + 1)
             for result in measured if result.reading]
    return fmean(spent) if spent else None
