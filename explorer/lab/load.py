"""Several requests at once as the lab shows them: cells, best budgets, sentences, predictions of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.budget.cost import CostCurve
from engine.decoding.methods import METHODS
from engine.lab.load import curves, load_words, predict, prediction_error, texts_forecast, texts_measured
from engine.lab.settings import CellResult, Setting
from engine.lab.store import StoredSweep
from engine.lab.summary import Summary, summarise
from engine.lab.whatif import WhatIf
from explorer.lab.load_cells import LoadCell, LoadGrid, grid_of, name_of
from explorer.lab.load_figures import each_figure, heat_figure
from explorer.lab.names import line_of
from explorer.lab.progress import recorded_view
from explorer.lab.recorded import is_recorded
from explorer.view import View


@dataclass(frozen=True)
class LoadPrediction:
    """What one run predicts: its rounds under every method and budget, and the cost of rounds by requests at once."""

    forecast: WhatIf
    costs: Mapping[int, CostCurve]

    def of(self, measured: Sequence[CellResult]) -> dict[Setting, float]:
        """Total tokens/s of every setting: from its own measured rounds, else from those of the run."""
        texts = {**texts_forecast(self.forecast.forecasts), **texts_measured(measured)}
        return predict(texts, self.costs, self.costs.__getitem__)

    @property
    def withheld(self) -> str:
        """Why no best budget is predicted from its cost curves, in a sentence; empty where one is."""
        return next((curve.disorder for curve in self.costs.values() if curve.disorder), "")

    def belongs_to(self, stored: StoredSweep) -> bool:
        """Whether it is of the measurement's machine and rig, so that both may stand in one figure."""
        seen, here = stored.conditions, self.forecast
        return not is_recorded(stored.number) and (seen.rig, seen.hardware, seen.dtype) == (
            here.rig, here.hardware, here.dtype)


@dataclass(frozen=True)
class LoadFocus:
    """What is shown: which curve, and how many requests at once."""

    line: str = ""
    together: int = 1


def load_view(stored: StoredSweep | None, measured: Sequence[CellResult], prediction: LoadPrediction | None,
              looked: LoadFocus) -> View:
    """{lines, line, heat, each, words, accuracy, table, count, recorded}: a prediction of another machine or rig than
    the measurement's stands alone. ``count`` is how many cells there are."""
    alone = prediction is not None and not (stored and prediction.belongs_to(stored))
    seen = [] if alone else list(measured)
    asked = stored.plan.settings if stored and not alone else ()
    summary = summarise(asked, seen)
    predicted = prediction.of(seen) if prediction else {}
    lines = {line_of(curve): curve for curve in _curves((*asked, *predicted))}
    chosen = lines.get(looked.line) or next(iter(_fastest(summary, lines)), None)
    if chosen is None:
        return {"lines": [], "line": "", "words": [], "accuracy": "", "count": 0}
    grid = replace(grid_of(chosen, asked, summary, predicted), withheld=prediction.withheld if prediction else "")
    error = prediction_error({setting: total for setting, total in predicted.items()
                              if setting.curve in (chosen, chosen.baseline)}, summary)
    return {
        "lines": list(lines), "line": line_of(chosen), "heat": heat_figure(grid, looked.together),
        "each": each_figure(grid), "words": words(grid, summary), "table": table(grid), "count": len(grid.cells),
        "accuracy": error.sentence if error else "",
        "recorded": recorded_view(stored) if stored and not alone else None}


def _curves(settings: Sequence[Setting]) -> list[Setting]:
    return list(dict.fromkeys(setting.curve for setting in settings if METHODS[setting.method].drafter_count))


def _fastest(summary: Summary, lines: Mapping[str, Setting]) -> list[Setting]:
    """The curves, the one with the largest total first."""
    known = curves(summary)
    totals = {curve: max(row.total.median for row in summary.rows if row.setting.curve == curve) for curve in known}
    return sorted(lines.values(), key=lambda curve: -totals.get(curve, 0.0))


def words(grid: LoadGrid, summary: Summary) -> list[str]:
    """The best budgets and where plain decoding wins; from the prediction, where nothing was measured."""
    said = load_words(summary, grid.curve)
    if not any(cell.predicted for cell in grid.cells.values()):
        return said
    if said or grid.withheld:
        return [*said, *([grid.withheld] if grid.withheld else [])]
    best = [f"{name_of(cell.setting)} for {count}" for count in grid.counts if (cell := grid.best(count))]
    return [f"Predicted, not measured: the best budget of {grid.curve.label}, by requests at once: {', '.join(best)}."]


def table(grid: LoadGrid) -> View:
    """The cells for a table: {columns, rows: [{together, cells}]}, a cell {text, more, best, predicted} or None."""
    rows = []
    for count in grid.counts:
        best = grid.best(count)
        cells = [grid.at(column, count) for column in grid.columns]
        rows.append({"together": count, "cells": [cell and _cell(cell, cell is best) for cell in cells]})
    return {"columns": [name_of(column) for column in grid.columns], "rows": rows}


def _cell(cell: LoadCell, best: bool) -> View:
    low, high = cell.interval("total") or (cell.total, cell.total)
    more = "predicted" if cell.predicted else f"{low:,.0f} – {high:,.0f}"
    same = cell.row and cell.row.same_text != cell.row.compared
    return {"text": f"{'≈ ' if cell.predicted else ''}{cell.total:,.0f}", "more": f"{more}; {cell.each:,.0f} each",
            "best": best, "predicted": cell.predicted,
            "differs": f"{cell.row.same_text} of {cell.row.compared} texts the same" if same and cell.row else ""}
