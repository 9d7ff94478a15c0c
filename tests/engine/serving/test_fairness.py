"""Nobody gets less than a part of the rig for himself, counted on a rig of which it is known what its rounds take."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from engine.budget.cost import RoundCost
from engine.serving.seats import pick_batch, update_deficits

FREE, DEAR, BOTH = (0.02, 0.0), (0.001, 0.001), (0.02, 0.0004)  # seconds of a pass, and of each of its rows
MIXTURES = ((1, 31, 31), (1, 1025), (65,) * 8, (1, 1, 9, 17, 33, 65, 129, 257), (1,) * 7 + (513,))


@dataclass
class Simulated:
    """A run whose rounds have so many rows."""

    rows: int
    owed: float = 0.0
    rounds: int = 0


def simulated(rows: Sequence[int], costs: tuple[float, float], noise: random.Random | None = None,
              seconds: float = 400.0) -> list[float]:
    """Each run's rate over that of a lone run divided by their number."""
    runs, cost, clock = [Simulated(each) for each in rows], RoundCost(), 0.0
    while clock < seconds:
        chosen = pick_batch(runs, cost)
        took = costs[0] + costs[1] * sum(run.rows for run in chosen)
        took *= noise.choice((0.9, 1.0, 1.1, 1.0, 8.0 if noise.random() < 0.1 else 1.0)) if noise else 1.0
        cost.learn(sum(run.rows for run in chosen), took)
        update_deficits(runs, chosen, cost)
        clock += took
        for run in chosen:
            run.rounds += 1
    return [run.rounds / clock * (costs[0] + costs[1] * run.rows) * len(runs) for run in runs]


@pytest.mark.parametrize("costs", [FREE, DEAR, BOTH], ids=["free", "dear", "both"])
@pytest.mark.parametrize("rows", MIXTURES, ids=str)
def test_nobody_falls_below_a_part_of_a_lone_run(rows: Sequence[int], costs: tuple[float, float]) -> None:
    assert min(simulated(rows, costs)) > 0.8


@pytest.mark.parametrize("rows", MIXTURES, ids=str)
def test_where_rows_are_free_everybody_is_nearly_as_fast_as_alone(rows: Sequence[int]) -> None:
    assert min(simulated(rows, FREE)) > 0.85 * len(rows)


def test_equal_runs_are_in_every_round_whatever_else_holds_rounds_up() -> None:
    parts = simulated((65,) * 8, BOTH, random.Random(1))
    assert max(parts) < 1.02 * min(parts)


def test_other_work_on_the_machine_is_no_reason_to_part() -> None:
    noisy = simulated((1, 31, 31), FREE, random.Random(1))
    quiet = simulated((1, 31, 31), FREE)
    assert min(noisy) > 0.4 * min(quiet)


def test_the_cost_of_rounds_is_learnt_from_them() -> None:
    cost = RoundCost()
    assert cost.of(5) == 0
    cost.learn(60, 0.6)
    assert cost.of(6) == pytest.approx(0.06, rel=0.05), "until sizes differ a row's part is its own"
    for _ in range(40):
        cost.learn(60, 0.6)
        cost.learn(1, 0.3)
    assert cost.of(1) == pytest.approx(0.3, rel=0.05) and cost.of(60) == pytest.approx(0.6, rel=0.05)
