"""The table of a sweep: each setting's median τ, tokens/s and speed-up over the prompts, and the fastest setting, for
every number of requests at once.

A prompt counts once: its value is the median over its repeats, since repeats differ by the machine's noise and prompts
by what is asked. Speed-up compares with the baseline on the same prompt, in the same repeat, on the same hardware and
with as many requests at once, so that whatever slows both cancels out. Texts are compared with those of the baseline
with one request at a time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from engine.decoding.methods import METHODS
from engine.lab.against_plain import first_difference, speedup_withheld, unsteady
from engine.lab.reading import Reading
from engine.lab.settings import CellResult, Setting
from engine.lab.speed import SpeedRecord, rate_text, speed_record
from engine.lab.statistics import Estimate, estimate
from engine.trace import mean_length


@dataclass(frozen=True)
class Row:
    """One setting's row. Estimates such as ``tau`` are over prompts; ``pooled_tau`` is all tokens over all rounds;
    ``runs`` were measured, ``failed`` could not be; of ``compared`` runs, ``same_text`` wrote the baseline's text.
    ``tokens_per_second`` is one request's, ``total`` that of all requests at once. ``speedup`` is the quotient of two
    such medians, this row's and plain decoding's; its interval comes from the ratios of single runs. ``withheld`` says
    why there is none though there was something to compare with. ``repeating`` runs wrote a text that repeats itself,
    which counts as a whole."""

    setting: Setting
    runs: int
    failed: int
    tokens: int
    rounds: int
    pooled_tau: float
    tau: Estimate
    tokens_per_second: Estimate
    total: Estimate
    speedup: Estimate | None
    same_text: int
    compared: int
    withheld: str = ""
    repeating: int = 0

    @property
    def record(self) -> SpeedRecord:
        """``total`` beside plain decoding's, as every table prints it."""
        if self.withheld or self.speedup is None:
            return SpeedRecord(rate_text(self.total.median), withheld=self.withheld)
        ratio = self.speedup
        return speed_record(self.total.median, self.total.median / ratio.median, ratio.low, ratio.high)


@dataclass(frozen=True)
class Summary:
    """The table's ``rows``, in the order of the given settings."""

    rows: tuple[Row, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of requests at once that have a row besides plain decoding's, ascending; all if none has."""
        drafted = {row.setting.concurrency for row in self.rows if METHODS[row.setting.method].drafter_count}
        return tuple(sorted(drafted or {row.setting.concurrency for row in self.rows}))

    @property
    def best(self) -> Row | None:
        """The lossless row of the largest median total tokens/s with the fewest requests at once, the smaller budget
        among equals; None without one."""
        sound = [row for row in self.rows
                 if row.setting.concurrency == self.counts[0] and METHODS[row.setting.method].lossless]
        return max(sound, key=lambda row: (row.total.median, -row.setting.budget), default=None)

    def at(self, concurrency: int) -> Summary:
        """The rows of so many requests at once."""
        return Summary(tuple(row for row in self.rows if row.setting.concurrency == concurrency))


RunKey = tuple[int, int, str]  # prompt, repeat, hardware


@dataclass(frozen=True)
class ComparedRun:
    """A reading with the baseline's readings that it is compared with: with as many requests at once, and with one."""

    prompt: int
    reading: Reading
    baseline: Reading | None
    alone: Reading | None


def summarise(settings: Iterable[Setting], measured: Sequence[CellResult]) -> Summary:
    """The table of the cells measured so far; a setting without a run has no row."""
    readings: dict[Setting, dict[RunKey, Reading]] = defaultdict(dict)
    for result in measured:
        if result.reading and result.reading.lengths:
            readings[result.cell.setting][result.cell.prompt, result.cell.repeat, result.hardware] = result.reading
    asked, rows = Counter(result.cell.setting for result in measured), []
    for setting in settings:
        if setting in readings:
            plain, alone = (readings.get(baseline, {}) for baseline in (setting.baseline, setting.baseline.alone))
            runs = [ComparedRun(run[0], reading, plain.get(run), alone.get(run))
                    for run, reading in readings[setting].items()]
            rows.append(_row(setting, runs, asked[setting] - len(runs), plain))
    return Summary(tuple(rows))


def _row(setting: Setting, runs: Sequence[ComparedRun], failed: int, plain: Mapping[RunKey, Reading]) -> Row:
    """A setting's row; ``plain`` are all readings of its baseline."""
    tau = _over_prompts((run.prompt, run.reading.tau) for run in runs)
    total = _over_prompts((run.prompt, run.reading.total_tokens_per_second) for run in runs)
    speedup, withheld = _speedup(runs, tau.median, total, plain)
    same = [first_difference(run.reading, run.alone) is None for run in runs if run.alone]
    tokens, rounds = sum(len(run.reading.token_ids) for run in runs), sum(run.reading.rounds for run in runs)
    each = _over_prompts((run.prompt, run.reading.tokens_per_second) for run in runs)
    return Row(setting, len(runs), failed, tokens, rounds, mean_length(tokens, rounds), tau, each, total, speedup,
               sum(same), len(same), withheld, sum(run.reading.repeats for run in runs))


def _speedup(runs: Sequence[ComparedRun], tau: float, total: Estimate,
             plain: Mapping[RunKey, Reading]) -> tuple[Estimate | None, str]:
    """The speed-up of a setting with that median τ, or why it is withheld; neither without a baseline."""
    ratios = [(run.prompt, run.reading.total_tokens_per_second / run.baseline.total_tokens_per_second)
              for run in runs if run.baseline]
    if not ratios:
        return None, ""
    plain_total = _over_prompts((prompt, reading.total_tokens_per_second) for (prompt, *_), reading in plain.items())
    speedup = replace(_over_prompts(ratios), median=total.median / plain_total.median)
    if all(run.reading is run.baseline for run in runs):  # plain decoding itself
        return speedup, ""
    drafted = sum(rows > 1 for run in runs for rows in run.reading.rows)
    busy = unsteady(plain_total.least, plain_total.median, plain_total.most)
    withheld = speedup_withheld(tau, speedup.median, drafted, sum(run.reading.rounds for run in runs), busy)
    return (None, withheld) if withheld else (speedup, "")


def _over_prompts(values: Iterable[tuple[int, float]]) -> Estimate:
    by_prompt: dict[int, list[float]] = defaultdict(list)
    for prompt, value in values:
        by_prompt[prompt].append(value)
    return estimate([median(repeats) for repeats in by_prompt.values()])
