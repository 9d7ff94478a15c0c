"""The cells of budget × requests at once, of one method: measured, predicted, or still to come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.decoding.budget_policy import FIXED
from engine.decoding.methods import METHODS
from engine.lab.settings import Setting
from engine.lab.statistics import Estimate
from engine.lab.summary import Row, Summary

PLAIN = "plain"  # the column of decoding without a drafter


@dataclass(frozen=True)
class LoadCell:
    """A setting's total tokens/s and those of each request. ``row`` is what was measured, None of a prediction."""

    setting: Setting
    total: float
    each: float
    row: Row | None = None

    @property
    def predicted(self) -> bool:
        """Whether it is predicted, not measured."""
        return self.row is None

    def interval(self, name: str) -> tuple[float, float] | None:
        """The 95 % interval of ``total`` or ``tokens_per_second``, or what was seen where there is none; None of what
        was not measured."""
        if self.row is None:
            return None
        found: Estimate = getattr(self.row, name)
        if found.low is None or found.high is None:
            return found.least, found.most
        return found.low, found.high


@dataclass(frozen=True)
class LoadGrid:
    """One curve: a column for each budget, that of plain decoding the first, a row for each number of requests.
    ``withheld`` says why no predicted cell is called the best; empty where one may be."""

    curve: Setting
    columns: tuple[Setting, ...]
    counts: tuple[int, ...]
    cells: Mapping[Setting, LoadCell]
    withheld: str = ""

    def at(self, column: Setting, count: int) -> LoadCell | None:
        """The cell; None where there is none yet."""
        return self.cells.get(replace(column, together=count))

    def best(self, count: int) -> LoadCell | None:
        """The largest total of a number of requests: of what was measured, where anything was; None where nothing was
        and the prediction is withheld."""
        row = [cell for column in self.columns if (cell := self.at(column, count))]
        measured = [cell for cell in row if not cell.predicted]
        return max(measured or ([] if self.withheld else row), key=lambda cell: cell.total, default=None)


def name_of(column: Setting) -> str:
    """The name of a column, as the page shows it."""
    return column.nodes if METHODS[column.method].drafter_count else PLAIN


def grid_of(curve: Setting, asked: Sequence[Setting], summary: Summary,
            predicted: Mapping[Setting, float]) -> LoadGrid:
    """The cells of a curve: settings ``asked`` for have a place from the start; a measurement takes precedence over a
    prediction."""
    own = {curve, curve.baseline}
    cells = {setting: LoadCell(setting, total, total / setting.together)
             for setting, total in predicted.items() if setting.curve in own}
    cells |= {row.setting: LoadCell(row.setting, row.total.median, row.tokens_per_second.median, row)
              for row in summary.rows if row.setting.curve in own}
    places = [setting for setting in (*asked, *cells) if setting.curve in own]
    columns = dict.fromkeys(sorted((setting.alone for setting in places), key=_order))
    counts = {setting.together for setting in places if setting.curve == curve}
    return LoadGrid(curve, tuple(columns), tuple(sorted(counts)), cells)


def _order(column: Setting) -> tuple[bool, bool, int]:
    return METHODS[column.method].drafter_count > 0, column.pace != FIXED, column.budget
