"""What several folders of the engine's tests ask for."""

import pytest

from engine.budget.cost import CostCurve
from engine.serving import cost
from engine.serving.cost import CostCase, Effort
from engine.serving.rigs import Rig

FEW_ROWS = (1, 3, 9, 33)


@pytest.fixture
def quick_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cost curves are measured in earnest, but at a few sizes and in a fraction of a second."""
    measure = cost.measure

    def quickly(rig: Rig, case: CostCase, effort: Effort = cost.QUICK) -> CostCurve:
        rows = [case.requests * rows for rows in FEW_ROWS]
        return measure(rig, case, rows, Effort(0.0, effort.dearest, effort.dearest_ms))
    monkeypatch.setattr(cost, "measure", quickly)
