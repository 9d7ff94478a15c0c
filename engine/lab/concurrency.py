"""Several requests at once: the best budget for each number, where plain decoding is faster, and predicted speeds.

Trees do not depend on which other requests share the pass, so each request has the rounds that it has alone, priced by
the measured cost of shared rounds. Wherever they are shown, such figures are labelled as predicted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from statistics import median
from typing import Any

from engine.budget.cost import CostByConcurrency
from engine.decoding.budget_policy import FIXED
from engine.decoding.methods import METHODS
from engine.lab.settings import CellResult, Setting
from engine.lab.summary import Row, Summary


def curves(summary: Summary) -> tuple[Setting, ...]:
    """The curves of the drafting methods, as ``Setting.curve`` names them."""
    return tuple(dict.fromkeys(row.setting.curve for row in summary.rows if METHODS[row.setting.method].drafter_count))


def ridge(rows: Iterable[Row]) -> dict[int, Row]:
    """For each number of requests at once, ascending, the row with the largest median total tokens/s."""
    best: dict[int, Row] = {}
    for row in sorted(rows, key=lambda row: (row.setting.concurrency, -row.total.median, row.setting.budget)):
        best.setdefault(row.setting.concurrency, row)
    return best


def concurrency_words(summary: Summary, curve: Setting) -> list[str]:
    """Sentences about a curve, by its medians: the ridge, and where plain decoding is faster."""
    rows = [row for row in summary.rows if row.setting.curve == curve]
    measured = {row.setting.concurrency for row in rows}
    plain = [row for row in summary.rows
             if row.setting.curve == curve.baseline and row.setting.concurrency in measured]
    budgets = [f"{_budget(row)} for {concurrency}" for concurrency, row in ridge([*plain, *rows]).items()]
    best = [f"The best budget of {curve.label}, by requests at once: {', '.join(budgets)}."] if budgets else []
    return [*best, *plain_words(rows)]


def _budget(best: Row) -> str:
    if best.withheld:
        return "not said"
    return best.setting.nodes if METHODS[best.setting.method].drafter_count else "none (plain decoding)"


def plain_words(rows: Sequence[Row]) -> list[str]:
    """Sentences on where plain decoding is faster, one for each number of requests at once, ascending; neighbouring
    numbers with the same result share one."""
    by_count: dict[int, str] = {}
    for count in sorted({row.setting.concurrency for row in rows}):
        fixed = sorted((row for row in rows if row.setting.pace == FIXED and row.setting.concurrency == count
                        and (row.speedup or row.withheld)), key=lambda row: row.setting.budget)
        if fixed:
            by_count[count] = _verdict(fixed)
    groups = [(words, [count for count, _ in members])
              for words, members in groupby(by_count.items(), key=lambda item: item[1])]
    return [f"With {_span(counts)} at once {words}." for words, counts in groups]


def _verdict(rows: Sequence[Row]) -> str:
    """What the rows of one number of requests show, by ascending budget."""
    said = {row.setting.budget: row.speedup.median for row in rows if row.speedup}
    withheld = [str(row.setting.budget) for row in rows if not row.speedup]
    if not said:
        return f"speeds are not compared. {rows[0].withheld.rstrip('.')}"
    losing = [budget for budget, faster in said.items() if faster < 1]
    return _where(list(said), losing) + (f"; not said at {', '.join(withheld)}" if withheld else "")


def _where(budgets: Sequence[int], losing: Sequence[int]) -> str:
    """At which of the ascending budgets plain decoding is faster."""
    winning = [budget for budget in budgets if budget not in losing]
    if not losing:
        return "drafting pays at every budget measured"
    if not winning:
        return "plain decoding is faster at every budget measured"
    if winning[-1] < losing[0]:
        return f"plain decoding is faster at budgets above {winning[-1]}"
    if losing[-1] < winning[0]:
        return f"plain decoding is faster at budgets below {winning[0]}"
    return f"plain decoding is faster at the budget{'s' if len(losing) > 1 else ''} {', '.join(map(str, losing))}"


def _span(counts: Sequence[int]) -> str:
    """Measured numbers of requests in words."""
    if counts == [1]:
        return "1 request"
    return f"{', '.join(map(str, counts[:-1]))}{' and ' if counts[1:] else ''}{counts[-1]} requests"


@dataclass(frozen=True)
class KnownRounds:
    """The rounds of one text: tokens kept and rows verified in each, the root included, and the milliseconds of
    building one round's trees."""

    lengths: tuple[int, ...]
    rows: tuple[int, ...]
    build_ms: float

    def total_tokens_per_second(self, setting: Setting, costs: CostByConcurrency) -> float:
        """The tokens per second of all requests, if as many like this one as the setting says are answered at once."""
        concurrency, drafters = setting.concurrency, METHODS[setting.method].drafter_count
        curve = costs(concurrency)
        spent_ms = sum(curve.round_ms(concurrency * rows, setting.budget, drafters, concurrency * self.build_ms)
                       for rows in self.rows)
        return 1e3 * concurrency * sum(self.lengths) / spent_ms


Texts = Mapping[Setting, Sequence[KnownRounds]]  # of settings with one request at a time: the rounds of each text


def texts_measured(measured: Iterable[CellResult]) -> Texts:
    """The rounds of every measured setting, one text per prompt, from its runs with the fewest requests at once."""
    by_setting: dict[Setting, dict[int, KnownRounds]] = defaultdict(dict)
    for result in sorted(measured, key=lambda result: result.cell.setting.concurrency):
        setting, reading = result.cell.setting, result.reading
        if reading and reading.lengths and setting.pace == FIXED:
            build_ms = 1e3 * reading.stage_seconds.get("build", 0.0) / reading.rounds / setting.concurrency
            by_setting[setting.alone].setdefault(
                result.cell.prompt, KnownRounds(reading.lengths, reading.rows, build_ms))
    return {setting: list(rounds.values()) for setting, rounds in by_setting.items()}


def predict(texts: Texts, counts: Iterable[int], costs: CostByConcurrency) -> dict[Setting, float]:
    """Predicted total tokens/s of every setting with each of these numbers of requests at once: medians over texts.
    Settings that choose their own budget are left out: with several requests they choose another one."""
    asked = [replace(setting, concurrency=count) for count in counts for setting in texts]
    return {setting: median(known.total_tokens_per_second(setting, costs) for known in texts[setting.alone])
            for setting in asked}


def predicted_records(predicted: Mapping[Setting, float], summary: Summary) -> list[dict[str, Any]]:
    """Every predicted setting as a flat record, with the measured figures, None if nothing was measured."""
    known = {row.setting: row.total.median for row in summary.rows}
    return [{"label": setting.label, **asdict(setting), "predicted_tokens_per_second": total,
             "total_tokens_per_second": known.get(setting)} for setting, total in predicted.items()]


def prediction_error(predicted: Mapping[Setting, float], summary: Summary) -> str:
    """How far predictions are from measurements, in a sentence; empty if no predicted setting was measured."""
    errors = {row.setting: abs(predicted[row.setting] / row.total.median - 1)
              for row in summary.rows if row.setting in predicted}
    if not errors:
        return ""
    worst = max(errors, key=lambda setting: errors[setting])
    return (f"Against {len(errors)} measured cells the prediction is off by {median(errors.values()):.0%} in the "
            f"median and by {errors[worst]:.0%} at most ({worst.label}).")
