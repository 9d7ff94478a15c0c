"""Runs a stored sweep, or a race, on workers. Another thread can stop either after the run in progress.

A race measures several settings on one prompt, interleaved, to replay them side by side.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from threading import Event
from time import perf_counter
from typing import Protocol

from engine.errors import CanopyError, RequestError
from engine.lab.against_plain import Difference, first_difference
from engine.lab.reading import Reading
from engine.lab.settings import CellResult, Conditions, Setting, SweepPlan, Task, check, measuring_order
from engine.lab.store import Store
from engine.lab.summary import Row, summarise
from engine.machine.progress import ReportProgress
from engine.records import PromptRequest
from engine.trace import Piece


class Progress:
    """Counts the steps of a long measurement; an exception that ``report`` raises ends it."""

    def __init__(self, report: ReportProgress | None = None) -> None:
        self._report = report
        self._done = self._total = 0

    def expect(self, count: int) -> None:
        self._total += count

    def begin(self, message: str) -> None:
        """Report that the next step begins; ``message`` says what it does."""
        if self._report:
            self._report(message, min(1.0, self._done / max(1, self._total)))
        self._done += 1


class Measurer(Protocol):
    """The machine and the methods that a laboratory or workers measure with."""

    @property
    def conditions(self) -> Conditions: ...

    @property
    def methods(self) -> Sequence[str]: ...

    @property
    def drafters(self) -> Sequence[str]: ...


class Laboratory(Measurer, Protocol):
    """Measures one run at a time, once the rig is free. CanopyError if it cannot serve a request."""

    def measure(self, request: PromptRequest) -> Reading:
        """Run a request to its end, and return the reading."""

    def measure_concurrent(self, request: PromptRequest, others: Sequence[PromptRequest], concurrency: int) -> Reading:
        """Measure a request while ``others`` keep ``concurrency`` requests in every round."""

    def pieces(self, token_ids: Sequence[int]) -> Mapping[int, Piece]:
        """Return the text of tokens by id, as in a trace's entries."""

    def text_pieces(self, token_ids: Sequence[int]) -> Sequence[Piece]:
        """Return what each token of a run's text adds to it."""


class Workers(Measurer, Protocol):
    """Measures tasks: in this process, or by workers elsewhere (``engine/measure/ray_workers.py``)."""

    def work(self, tasks: Sequence[Task], stop: Event) -> Iterator[CellResult]:
        """Measure every task once, until ``stop`` is set, and yield each result at once.

        The result of a task that cannot be served is a sentence. Tasks of one block (``block_of``) go to one device.
        """


class LocalWorkers:
    """One worker: this process, which measures one task after another."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.laboratory, self.conditions = laboratory, laboratory.conditions
        self.methods, self.drafters = laboratory.methods, laboratory.drafters

    def work(self, tasks: Sequence[Task], stop: Event) -> Iterator[CellResult]:
        warmed = warm(self.laboratory, tasks, stop)
        for task in tasks:
            if not warmed or stop.is_set():
                return
            yield measure(self.laboratory, task)


WARMING_TOKENS = 8  # enough to touch every buffer of a setting once


def warm(laboratory: Laboratory, tasks: Sequence[Task], stop: Event) -> bool:
    """Run every setting once for a few tokens, so that no first use is measured; return False if stopped.

    A setting that cannot be served is skipped; its own cell will report it.
    """
    def short(request: PromptRequest) -> PromptRequest:
        return replace(request, max_tokens=min(request.max_tokens, WARMING_TOKENS))

    longest_first = sorted(tasks, key=lambda task: -len(task.request.prompt))
    shortest = {task.cell.setting: task for task in longest_first}
    for setting in dict.fromkeys(task.cell.setting for task in tasks):
        if stop.is_set():
            return False
        task = shortest[setting]
        measure(laboratory, Task(task.cell, short(task.request), tuple(map(short, task.others))))
    return True


def measure(laboratory: Laboratory, task: Task) -> CellResult:
    """Measure one task; the result is a reading, or a sentence that says why there is none."""
    hardware, concurrency = laboratory.conditions.hardware, task.cell.setting.concurrency
    try:
        reading = (laboratory.measure(task.request) if concurrency == 1 else
                   laboratory.measure_concurrent(task.request, task.others, concurrency))
        return CellResult(task.cell, reading, hardware=hardware)
    except CanopyError as error:
        return CellResult(task.cell, None, str(error), hardware)


@dataclass(frozen=True)
class SweepProgress:
    """Progress after a cell: its result, and how many cells are done, have failed, and exist in total."""

    measured: CellResult
    done: int
    failed: int
    total: int
    seconds_left: float


def run_sweep(store: Store, number: int, workers: Workers, stop: Event) -> Iterator[SweepProgress]:
    """Measure the pending cells of a sweep. Every result is in the store before its progress is yielded.

    RequestError if the workers cannot measure it, or differ in rig, hardware or versions from the results so far.
    ResultsError if a result cannot be written; earlier results stay.
    """
    stored = store.sweep(number)
    check(stored.plan, workers.methods, workers.drafters)
    then, now = ({"rig": of.rig, "hardware": of.hardware, "dtype": of.dtype, **dict(sorted(of.versions.items()))}
                 for of in (stored.conditions, workers.conditions))
    changed = "; ".join(f"{name}: {then.get(name, 'none')} then, {now.get(name, 'none')} now"
                        for name in {**then, **now} if then.get(name) != now.get(name))
    if changed:
        raise RequestError(f"Sweep {number} was begun under other conditions ({changed}), so its figures and new ones "
                           "do not compare; begin a new sweep.")
    tasks = [stored.plan.task(cell) for cell in store.pending(number)]
    failed = sum(result.reading is None for result in store.measured(number))
    done, total, began = stored.done, len(stored.plan), 0.0
    for result in workers.work(tasks, stop):
        if store.record(stored, result):
            done, failed = done + 1, failed + (result.reading is None)
            # Every block holds every setting, so the remaining cells take as long as the measured ones. Warming up,
            # before the first one, does not recur.
            clock = perf_counter()
            began = began or clock - (
                result.reading.seconds + result.reading.prefill_seconds if result.reading else 0.0)
            left = (clock - began) / (done - stored.done) * (total - done)
            yield SweepProgress(result, done, failed, total, left)


MIN_REPEATS = 3  # of a race; with fewer a median has no spread


@dataclass(frozen=True)
class Track:
    """One setting of a race. ``shown`` is the repeat of median duration, with cumulative ``seconds`` and ``tokens`` by
    round; ``row`` has the statistics over repeats; ``difference`` is the first from plain decoding's text. All are
    empty if ``failure`` says why it could not run."""

    setting: Setting
    shown: Reading | None = None
    seconds: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()
    row: Row | None = None
    difference: Difference | None = None
    failure: str = ""
    text_pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Race:
    """The tracks in the order of the plan's settings, and the text of every token in them."""

    tracks: tuple[Track, ...]
    pieces: Mapping[int, Piece]


def race_plan(plan: SweepPlan) -> SweepPlan:
    """Add the baselines to a plan; RequestError if it is not a race."""
    if len(plan.prompts) != 1:
        raise RequestError(f"A race is run on one prompt; {len(plan.prompts)} were given.")
    if plan.repeats < MIN_REPEATS:
        raise RequestError(f"A race of {plan.repeats} repeats has no spread; it takes {MIN_REPEATS} or more.")
    settings = dict.fromkeys([*(setting.baseline for setting in plan.settings), *plan.settings])
    return replace(plan, settings=tuple(settings))


def run_race(laboratory: Laboratory, plan: SweepPlan, stop: Event) -> Iterator[CellResult]:
    """Run every repeat of every setting, interleaved. Repeats use one seed, so they differ only in time."""
    check(plan, laboratory.methods, laboratory.drafters)
    tasks = [Task(cell, plan.request(replace(cell, repeat=0))) for cell in measuring_order(plan)]
    return LocalWorkers(laboratory).work(tasks, stop)


def tracks(plan: SweepPlan, measured: Sequence[CellResult], laboratory: Laboratory) -> Race:
    """Turn the measured settings into tracks; a setting that was not measured before a stop has none."""
    # ``summarise`` takes medians over prompts, so each repeat is passed as a prompt of its own
    repeats = [replace(result, cell=replace(result.cell, prompt=result.cell.repeat)) for result in measured]
    rows = {row.setting: row for row in summarise(plan.settings, repeats).rows}
    readings: dict[Setting, dict[int, Reading]] = {setting: {} for setting in plan.settings}
    failures: dict[Setting, str] = {}
    for result in measured:
        if result.reading:
            readings[result.cell.setting][result.cell.repeat] = result.reading
        else:
            failures.setdefault(result.cell.setting, result.failure)
    raced = []
    for setting in plan.settings:
        own, plain = readings[setting], readings[setting.baseline]
        if setting in rows:
            shown = sorted(own.values(), key=lambda reading: reading.seconds)[len(own) // 2]
            differences = filter(None, (first_difference(own[repeat], plain[repeat])
                                        for repeat in own.keys() & plain.keys()))
            raced.append(Track(
                setting, shown, tuple(accumulate(shown.round_seconds)), tuple(accumulate(shown.lengths)), rows[setting],
                min(differences, key=lambda difference: difference.position, default=None),
                text_pieces=tuple(laboratory.text_pieces(shown.token_ids))))
        elif own:  # no reading has a round
            raced.append(Track(setting, failure="Its text is empty, so there is nothing to race."))
        elif setting in failures:
            raced.append(Track(setting, failure=failures[setting]))
    tokens = {token for track in raced if track.shown for token in (*track.shown.token_ids, track.shown.bonus)}
    return Race(tuple(raced), laboratory.pieces(sorted(token for token in tokens if token >= 0)))
