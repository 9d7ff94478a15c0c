"""The table of a sweep: each setting's median τ, tokens/s, speed-up and break-even over the prompts.

A prompt counts once, by the median over its repeats. Speed-up and break-even compare with the baseline of the same
prompt, repeat, hardware and concurrency, so that what slows both cancels out. Texts are compared with those of the
baseline with one request.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import FIXED
from engine.decoding.methods import METHODS
from engine.lab.against_plain import BUSY, first_difference, speedup_withheld, unsteady
from engine.lab.reading import Reading
from engine.lab.settings import CellResult, Setting, SweepPlan
from engine.lab.speed import SpeedRecord, rate_text, speed_record
from engine.lab.statistics import Estimate, estimate
from engine.trace import mean_length

Runs = Mapping[tuple[int, int, str], Reading]  # by prompt, repeat and hardware


@dataclass(frozen=True)
class Row:
    """One setting's row. Estimates are over prompts; they are None without a baseline, or if ``withheld`` says why.

    ``tokens_per_second`` is one request's, ``total`` that of all concurrent requests. ``speedup`` is the quotient of
    two such medians, this row's and plain decoding's; its interval comes from single runs. ``break_even`` is the τ from
    which the setting pays: a round's time in plain rounds. ``pooled_tau`` is all tokens over all rounds. ``same_text``
    of ``compared`` runs wrote the baseline's text. ``repeating`` runs wrote a text that loops; it counts in full.
    """

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
    break_even: Estimate | None
    same_text: int
    compared: int
    withheld: str = ""
    repeating: int = 0

    @property
    def record(self) -> SpeedRecord:
        """Its ``total`` and plain decoding's, as every table prints them."""
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
        """The concurrencies that have a row besides plain decoding, ascending; all of them if none has."""
        drafted = {row.setting.concurrency for row in self.rows if row.setting.drafts}
        return tuple(sorted(drafted or {row.setting.concurrency for row in self.rows}))

    @property
    def best(self) -> Row | None:
        """The fastest lossless row at the lowest concurrency, the smaller budget among equals; None without one."""
        candidates = [row for row in self.rows
                      if row.setting.concurrency == self.counts[0] and METHODS[row.setting.method].lossless]
        return max(candidates, key=lambda row: (row.total.median, -row.setting.budget), default=None)

    def at(self, concurrency: int) -> Summary:
        return Summary(tuple(row for row in self.rows if row.setting.concurrency == concurrency))


def summarise(settings: Iterable[Setting], measured: Sequence[CellResult]) -> Summary:
    """Return the table of the cells measured so far; a setting without a run has no row."""
    readings: dict[Setting, dict[tuple[int, int, str], Reading]] = defaultdict(dict)
    for result in measured:
        if result.reading and result.reading.lengths:
            readings[result.cell.setting][result.cell.prompt, result.cell.repeat, result.hardware] = result.reading
    attempts = Counter(result.cell.setting for result in measured)
    return Summary(tuple(
        _row(setting, attempts[setting], readings[setting], readings.get(setting.baseline, {}),
             readings.get(setting.baseline.with_one_request, {})) for setting in settings if setting in readings))


def by_category(plan: SweepPlan, measured: Sequence[CellResult]) -> dict[str, list[CellResult]]:
    """Group the results by the category of their prompt, if it names one."""
    found: dict[str, list[CellResult]] = {category: [] for category in plan.categories}
    for result in measured:
        if category := plan.prompts[result.cell.prompt].category:
            found[category].append(result)
    return found


def _row(setting: Setting, attempts: int, runs: Runs, plain: Runs, alone: Runs) -> Row:
    """Return a setting's row. ``plain``: the baseline at the same concurrency; ``alone``: at one request."""
    tau = _over_prompts((run[0], reading.tau) for run, reading in runs.items())
    total = _over_prompts((run[0], reading.total_tokens_per_second) for run, reading in runs.items())
    pairs = [(run[0], reading, plain[run]) for run, reading in runs.items() if run in plain]
    speedup = break_even = None
    withheld = ""
    if pairs:
        plain_total = _over_prompts((run[0], reading.total_tokens_per_second) for run, reading in plain.items())
        ratios = _over_prompts((prompt, reading.total_tokens_per_second / baseline.total_tokens_per_second)
                               for prompt, reading, baseline in pairs)
        ratio = total.median / plain_total.median
        if setting != setting.baseline:
            drafted = sum(rows > 1 for reading in runs.values() for rows in reading.rows)
            rounds = sum(reading.rounds for reading in runs.values())
            withheld = speedup_withheld(tau.median, ratio, drafted, rounds, unsteady(plain_total))
        if not withheld:
            speedup = replace(ratios, median=ratio)
        if speedup and setting.drafts:
            break_even = _over_prompts((prompt, reading.round_ms / baseline.round_ms)
                                       for prompt, reading, baseline in pairs)
    same = [first_difference(reading, alone[run]) is None for run, reading in runs.items() if run in alone]
    tokens, rounds = (sum(getattr(reading, name) for reading in runs.values()) for name in ("tokens", "rounds"))
    each = _over_prompts((run[0], reading.tokens_per_second) for run, reading in runs.items())
    return Row(setting, len(runs), attempts - len(runs), tokens, rounds, mean_length(tokens, rounds), tau, each, total,
               speedup, break_even, sum(same), len(same), withheld,
               sum(reading.repeats for reading in runs.values()))


def _over_prompts(values: Iterable[tuple[int, float]]) -> Estimate:
    by_prompt: dict[int, list[float]] = defaultdict(list)
    for prompt, value in values:
        by_prompt[prompt].append(value)
    return estimate([median(repeats) for repeats in by_prompt.values()])


def curves(summary: Summary) -> tuple[Setting, ...]:
    """Return the curves of the drafting methods, as ``Setting.curve`` names them."""
    return tuple(dict.fromkeys(row.setting.curve for row in summary.rows if row.setting.drafts))


def concurrency_words(summary: Summary, curve: Setting) -> list[str]:
    """Say for each concurrency which budget of a curve is fastest, and at which budgets drafting pays."""
    sentences = []
    for count in sorted({row.setting.concurrency for row in summary.rows if row.setting.curve == curve}):
        rows = [row for row in summary.at(count).rows if row.setting.curve in (curve, curve.baseline)]
        sentences.append(f"{count} request{'s' if count > 1 else ''} at once: {_verdict(rows)}.")
    return sentences


def _verdict(rows: Sequence[Row]) -> str:
    """Say what the rows of one concurrency show, plain decoding's among them."""
    drafted = [row for row in rows if row.setting.drafts]
    compared = [row for row in drafted if row.speedup]
    if not compared:
        busy = "; measure again" if drafted[0].withheld == BUSY else ""
        return f"speeds are not compared{busy}. {drafted[0].withheld}".rstrip(".")
    best = max(rows, key=lambda row: (row.total.median, -row.setting.budget))
    name = f"budget {best.setting.budget_label}" if best.setting.drafts else "plain decoding"
    fastest = "no fastest setting is reported" if best.withheld else f"{name} is fastest"
    paying, losing = (", ".join(
        row.setting.budget_label for row in compared if row.speedup and (row.speedup.median >= 1) == pays)
        for pays in (True, False))
    withheld = ", ".join(row.setting.budget_label for row in drafted if row.withheld)
    return "; ".join([fastest, *([f"drafting pays at {paying}"] if paying else []),
                      *([f"plain decoding is faster than {losing}"] if losing else []),
                      *([f"{withheld}: not compared"] if withheld else [])])


def modelled_break_evens(measured: Iterable[CellResult], cost: CostCurve | None) -> dict[Setting, float]:
    """Return the τ from which each setting of one request pays by the cost of its rounds: medians over runs. Settings
    at ``auto`` have none."""
    ratios: dict[Setting, list[float]] = defaultdict(list)
    for result in measured:
        setting, reading = result.cell.setting, result.reading
        fixed = setting.drafts and setting.pace == FIXED and setting.concurrency == 1
        if cost and fixed and reading and reading.rows:
            build_ms = 1e3 * reading.stage_seconds.get("build", 0.0) / reading.rounds
            drafters = METHODS[setting.method].drafter_count
            rounds = (cost.round_ms(rows, setting.budget, drafters, build_ms) for rows in reading.rows)
            ratios[setting].append(fmean(rounds) / cost.plain_ms)
    return {setting: median(values) for setting, values in ratios.items()}
