"""What is said of several requests at once, and predicted: the rounds that each has alone, at the measured cost of
shared rounds. Such figures are labelled as predicted or modelled wherever they are shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from engine.budget.cost import CostByConcurrency
from engine.decoding.budget_policy import FIXED
from engine.decoding.methods import METHODS
from engine.lab.settings import CellResult, Setting
from engine.lab.summary import Row, Summary


def curves(summary: Summary) -> tuple[Setting, ...]:
    """The curves of the drafting methods, as ``Setting.curve`` names them."""
    return tuple(dict.fromkeys(row.setting.curve for row in summary.rows if row.setting.drafts))


def concurrency_words(summary: Summary, curve: Setting) -> list[str]:
    """A sentence for each number of requests at once: a curve's fastest budget, and at which budgets drafting pays."""
    sentences = []
    for count in sorted({row.setting.concurrency for row in summary.rows if row.setting.curve == curve}):
        rows = [row for row in summary.at(count).rows if row.setting.curve in (curve, curve.baseline)]
        sentences.append(f"{count} request{'s' if count > 1 else ''} at once: {_verdict(rows)}.")
    return sentences


def _verdict(rows: Sequence[Row]) -> str:
    """What the rows of one number of requests show, plain decoding's among them."""
    drafted = [row for row in rows if row.setting.drafts]
    said = [row for row in drafted if row.speedup]
    if not said:
        return f"speeds are not compared. {drafted[0].withheld}".rstrip(".")
    best = max(rows, key=lambda row: (row.total.median, -row.setting.budget))
    name = f"budget {best.setting.nodes}" if best.setting.drafts else "plain decoding"
    fastest = "the fastest is not said" if best.withheld else f"{name} is fastest"
    paying, losing = (", ".join(row.setting.nodes for row in said if row.speedup and (row.speedup.median >= 1) == pays)
                      for pays in (True, False))
    withheld = ", ".join(row.setting.nodes for row in drafted if row.withheld)
    return "; ".join([fastest, *([f"drafting pays at {paying}"] if paying else []),
                      *([f"plain decoding is faster than {losing}"] if losing else []),
                      *([f"nothing is said of {withheld}"] if withheld else [])])


@dataclass(frozen=True)
class KnownRounds:
    """The rounds of one text: tokens kept, rows verified, and the milliseconds of building a round's trees."""

    lengths: tuple[int, ...]
    rows: tuple[int, ...]
    build_ms: float

    def round_ms(self, setting: Setting, costs: CostByConcurrency) -> float:
        """The mean milliseconds of a round that the setting's number of such requests share."""
        concurrency, drafters = setting.concurrency, METHODS[setting.method].drafter_count
        curve = costs(concurrency)
        return sum(curve.round_ms(concurrency * rows, setting.budget, drafters, concurrency * self.build_ms)
                   for rows in self.rows) / len(self.rows)

    def total_tokens_per_second(self, setting: Setting, costs: CostByConcurrency) -> float:
        spent_ms = len(self.rows) * self.round_ms(setting, costs)
        return 1e3 * setting.concurrency * sum(self.lengths) / spent_ms


Texts = Mapping[Setting, Sequence[KnownRounds]]  # of settings with one request at a time: the rounds of each text


def texts_measured(measured: Iterable[CellResult]) -> Texts:
    """The rounds of every measured setting, one text per prompt, from its runs with the fewest requests at once.
    Settings that choose their own budget are left out: with several requests they choose another one."""
    by_setting: dict[Setting, dict[int, KnownRounds]] = defaultdict(dict)
    for result in sorted(measured, key=lambda result: result.cell.setting.concurrency):
        setting, reading = result.cell.setting, result.reading
        if reading and reading.lengths and setting.pace == FIXED:
            build_ms = 1e3 * reading.stage_seconds.get("build", 0.0) / reading.rounds / setting.concurrency
            by_setting[setting.alone].setdefault(
                result.cell.prompt, KnownRounds(reading.lengths, reading.rows, build_ms))
    return {setting: list(rounds.values()) for setting, rounds in by_setting.items()}


def predict(texts: Texts, counts: Iterable[int], costs: CostByConcurrency) -> dict[Setting, float]:
    """Predicted total tokens/s of every setting with each of these numbers of requests at once: medians over texts."""
    asked = [replace(setting, concurrency=count) for count in counts for setting in texts]
    return {setting: median(known.total_tokens_per_second(setting, costs) for known in texts[setting.alone])
            for setting in asked}


def modelled_break_even(setting: Setting, texts: Texts, costs: CostByConcurrency) -> float | None:
    """The τ from which a setting pays by the cost of rounds: a median over texts; None if it has no known budget."""
    if not setting.drafts or setting.alone not in texts:
        return None
    plain_ms = costs(setting.concurrency).plain_ms
    return median(known.round_ms(setting, costs) / plain_ms for known in texts[setting.alone])


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
