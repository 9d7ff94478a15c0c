"""What several folders of the engine's tests ask for."""

from typing import Any

import pytest

from engine.budget.cost import CostCurve
from engine.serving.cost import CostBook, CostCase, Effort

FEW_ROWS = (1, 3, 9, 33)


@pytest.fixture
def quick_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cost curves are measured in earnest, but at a few sizes and in a fraction of a second."""
    measure = CostBook.measure

    def quickly(book: CostBook, case: CostCase, effort: Effort, **more: Any) -> CostCurve:
        return measure(book, case, Effort(0.0, effort.max_ratio, effort.max_ms), FEW_ROWS, **more)
    monkeypatch.setattr(CostBook, "measure", quickly)
