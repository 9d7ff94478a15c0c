"""A cost curve is read as a staircase, and a curve that falls beyond its noise is recognised."""

from dataclasses import replace

import pytest

from engine.budget.cost import CostCurve

STAIRS = CostCurve("rig", "machine", "float32", "greedy", 64, 5, (1, 8, 9, 16, 17), (4.0, 4.0, 6.0, 6.0, 20.0),
                   (4.0, 4.0, 6.0, 6.0, 20.0), (6.0,) * 5, (1.0,) * 5, 0.5, 4.5)


def test_a_curve_is_a_staircase_and_extrapolates_beyond_its_end() -> None:
    assert [STAIRS.verify_at(rows) for rows in (1, 5, 8, 9, 12, 16, 17)] == [4, 4, 4, 6, 6, 6, 20]
    assert STAIRS.verify_at(17 + 17) == pytest.approx(20 + 2 * 15), "extrapolated from half as many rows"
    assert STAIRS.round_ms(9, 8, 2, 0.25) == 2 * 1.0 + 0.25 + 6.0 + 0.5
    assert STAIRS.round_ms(1, 0, 0) == STAIRS.plain_ms


def measured_curve(rows: tuple[int, ...], passes: tuple[float, ...], spread: float) -> CostCurve:
    """Return a curve of these pass times in ms; 80 % of the samples lie within ``spread`` of them."""
    low, high = (tuple(sign * ms for ms in passes) for sign in (1 - spread, 1 + spread))
    return replace(STAIRS, rows=rows, verify_ms=passes, verify_low_ms=low, verify_high_ms=high,
                   draft_ms=(1.0,) * len(rows))


# Measured with SmolLM2: its products (engine/LOG.md); and passes in bfloat16, where 4 rows cost no more than 1
INT4 = (1, 2, 4, 5, 8, 9, 17), (4.8, 5.8, 7.9, 14.0, 16.1, 20.6, 33.6)
EMULATED = (1, 2, 4, 5, 8, 9, 17), (28.4, 46.2, 35.5, 36.0, 41.5, 41.9, 60.9)  # float32, AVX2 emulated
FLAT = (1, 4, 17), (20.6, 20.2, 30.6)

@pytest.mark.parametrize(("curve", "sizes"), [
    (measured_curve(*INT4, 0.05), ()), (measured_curve(*FLAT, 0.1), ()), (measured_curve(*FLAT, 0.0), ()),
    (measured_curve(*EMULATED, 0.05), (2, 4)), (measured_curve(*EMULATED, 0.4), ()),
    (measured_curve((1, 4, 8, 16), (10.0, 30.0, 12.0, 14.0), 0.1), (4, 8)),
    (measured_curve((1, 4, 8, 16), (10.0, 11.0, 30.0, 14.0), 0.1), (8, 16)),
    (STAIRS, ()), (replace(STAIRS, verify_ms=(4.0, 9.0, 6.0, 6.0, 20.0), verify_low_ms=(4.0, 5.9, 6.0, 6.0, 20.0)),
                   ())])
def test_a_curve_that_falls_beyond_the_noise_predicts_no_best_budget(
        curve: CostCurve, sizes: tuple[int, ...]) -> None:
    assert bool(curve.unusable_reason) == bool(sizes)
    assert all(str(size) in curve.unusable_reason for size in sizes)
