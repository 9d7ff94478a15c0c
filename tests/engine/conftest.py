"""Fixtures that several folders of the engine's tests use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from engine.budget.cost import CostCurve
    from engine.serving.cost import CostCase

FEW_ROWS = (1, 3, 9, 33)


@pytest.fixture
def quick_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure cost curves at a few sizes and in a fraction of a second."""
    from engine.serving.cost import CostCurves, Effort  # here, because it imports torch

    measure = CostCurves.measure

    def quickly(book: CostCurves, case: CostCase, effort: Effort, **more: Any) -> CostCurve:
        return measure(book, case, Effort(0.0, effort.max_ratio, effort.max_ms), FEW_ROWS, **more)
    monkeypatch.setattr(CostCurves, "measure", quickly)
