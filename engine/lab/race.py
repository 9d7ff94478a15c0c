"""A race: several settings on one prompt, measured one after the other, to be replayed side by side in sync.

    plan = race_plan(plan)                                     three repeats or more, one prompt, the baseline in it
    measured = list(run_race(laboratory, plan, stop))       one at a time, interleaved
    lanes(plan, measured, laboratory)                          what the replay draws
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median
from threading import Event

from engine.errors import RequestError
from engine.lab.findings import speedup_withheld, unsteady
from engine.lab.parting import Difference, first_difference
from engine.lab.planning import check
from engine.lab.settings import CellResult, Laboratory, Reading, Setting, SweepPlan, measuring_order
from engine.lab.sweeping import LocalCrew, Task
from engine.trace import Piece

LEAST_REPEATS = 3  # with fewer a median has no spread


@dataclass(frozen=True)
class Spread:
    """The median, least and largest value over the repeats."""

    median: float
    least: float
    most: float


@dataclass(frozen=True)
class Lane:
    """One setting of a race. ``shown`` is the repeat of median time, which is replayed; ``seconds`` and ``tokens``
    (rounds,) are its wall-clock time and its tokens committed after each round, from the end of the prefill on.
    ``withheld`` says why there is no speed-up though plain decoding ran, ``failure`` why the setting could not run; the
    other fields are then empty."""

    setting: Setting
    shown: Reading | None = None
    seconds: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()
    tau: float = 0.0
    tokens_per_second: Spread | None = None
    speedup: Spread | None = None
    difference: Difference | None = None
    withheld: str = ""
    failure: str = ""


@dataclass(frozen=True)
class Race:
    """The lanes in the order of the plan's settings, and the text of all their tokens."""

    lanes: tuple[Lane, ...]
    pieces: Mapping[int, Piece]


def race_plan(plan: SweepPlan) -> SweepPlan:
    """The plan with the baselines added; RequestError where it is not a race."""
    if len(plan.prompts) != 1:
        raise RequestError(f"A race is run on one prompt; {len(plan.prompts)} were given.")
    if plan.repeats < LEAST_REPEATS:
        raise RequestError(f"A race of {plan.repeats} repeats has no spread; it takes {LEAST_REPEATS} or more.")
    settings = dict.fromkeys([*(setting.baseline for setting in plan.settings), *plan.settings])
    return replace(plan, settings=tuple(settings))


def run_race(laboratory: Laboratory, plan: SweepPlan, stop: Event) -> Iterator[CellResult]:
    """Run every repeat of every setting, interleaved, one at a time. All repeats share the draws of the plan's seed, so
    they write the same text and differ only in time."""
    check(plan, laboratory.methods, laboratory.drafters)
    tasks = [Task(cell, plan.ask(replace(cell, repeat=0))) for cell in measuring_order(plan)]
    return LocalCrew(laboratory).work(tasks, stop)


def lanes(plan: SweepPlan, measured: Sequence[CellResult], laboratory: Laboratory) -> Race:
    """The measured settings as lanes; a setting that was not measured before a stop has none."""
    by_setting = {setting: [result for result in measured if result.cell.setting == setting]
                  for setting in plan.settings}
    all_lanes = tuple(_lane(setting, result, by_setting.get(setting.baseline, []))
                 for setting, result in by_setting.items() if result)
    named = sorted({token for lane in all_lanes if lane.shown for token in (*lane.shown.token_ids, lane.shown.bonus)
                    if token >= 0})
    return Race(all_lanes, laboratory.pieces(named))


def _lane(setting: Setting, measured: Sequence[CellResult], baselines: Sequence[CellResult]) -> Lane:
    readings = {results.cell.repeat: results.reading for results in measured if results.reading}
    if not readings:
        return Lane(setting, failure=measured[0].failure)
    shown = sorted(readings.values(), key=lambda reading: reading.seconds)[len(readings) // 2]
    beside = {baseline.cell.repeat: baseline.reading for baseline in baselines if baseline.reading}
    pairs = [(reading, beside[repeat]) for repeat, reading in readings.items() if repeat in beside]
    differences = [results for reading, baseline in pairs if (results := first_difference(reading, baseline))]
    speedup, withheld = _speedup(setting, shown, [pair for pair in pairs if pair[1].lengths])
    return Lane(
        setting, shown, tuple(accumulate(shown.round_seconds)), tuple(accumulate(shown.lengths)), shown.tau,
        _spread([reading.tokens_per_second for reading in readings.values()]), speedup,
        min(differences, key=lambda results: results.place, default=None), withheld)


def _speedup(setting: Setting, shown: Reading, pairs: Sequence[tuple[Reading, Reading]]) -> tuple[Spread | None, str]:
    """The speed-up over plain decoding, or why it is withheld, from the readings of both in each repeat."""
    if not pairs:
        return None, ""
    speedup = _spread([reading.tokens_per_second / baseline.tokens_per_second for reading, baseline in pairs])
    if setting == setting.baseline:
        return speedup, ""
    plain = _spread([baseline.tokens_per_second for _, baseline in pairs])
    drafted = sum(rows > 1 for rows in shown.rows)
    withheld = speedup_withheld(shown.tau, speedup.median, drafted, shown.rounds,
                                unsteady(plain.least, plain.median, plain.most))
    return (None, withheld) if withheld else (speedup, "")


def _spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))
