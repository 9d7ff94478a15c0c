"""Reading a cost curve."""

from dataclasses import replace

import pytest

from engine.budget.cost import CostCurve, between

STAIRS = CostCurve("rig", "machine", "float32", "greedy", 64, 5, (1, 8, 9, 16, 17), (4.0, 4.0, 6.0, 6.0, 20.0),
                   (4.0, 4.0, 6.0, 6.0, 20.0), (6.0,) * 5, (1.0,) * 5, 0.5, 4.5)


def test_a_curve_is_read_between_its_neighbours_and_goes_on_behind_its_last() -> None:
    assert [STAIRS.verify_at(rows) for rows in (1, 5, 8, 9, 12, 16, 17)] == [4, 4, 4, 6, 6, 6, 20]
    assert STAIRS.verify_at(17 + 17) == pytest.approx(20 + 2 * 15), "as from half as many rows, not from one fewer"
    assert STAIRS.round_ms(9, 8, 2, 0.25) == 2 * 1.0 + 0.25 + 6.0 + 0.5
    assert STAIRS.round_ms(1, 0, 0) == STAIRS.plain_ms


def test_a_round_of_several_requests_has_their_rows_together() -> None:
    two = replace(STAIRS, requests=2, rows=(2, 8, 16), verify_ms=(4.0, 7.0, 15.0), draft_ms=(2.0, 4.0, 8.0))
    assert two.draft_at(3) == 4.0, "two requests with three nodes and a root each"


def test_what_lies_between_two_numbers_of_requests_is_read_between_them() -> None:
    fewer = replace(STAIRS, requests=2, rows=(2, 8), verify_ms=(2.0, 8.0), verify_low_ms=(1.0, 7.0),
                    verify_high_ms=(3.0, 9.0), draft_ms=(2.0, 8.0), overhead_ms=1.0, plain_ms=4.0)
    more = replace(fewer, requests=4, rows=(4, 8), verify_ms=(6.0, 10.0), verify_low_ms=(5.0, 9.0),
                   draft_ms=(6.0, 10.0), overhead_ms=3.0, plain_ms=8.0, repeats=2)
    curve = between(fewer, more, 3)
    assert (curve.requests, curve.rows, curve.repeats) == (3, (3, 4, 8), 2)
    assert (curve.overhead_ms, curve.plain_ms) == (2.0, 6.0)
    assert curve.verify_ms == (4.5, 5.0, 9.0) and curve.verify_low_ms == (3.5, 4.0, 8.0)
    assert curve.draft_ms[0] == 4.0, "no node each: between the drafts of two and of four without any"


def measured_curve(rows: tuple[int, ...], passes: tuple[float, ...], spread: float) -> CostCurve:
    """A curve of passes of so many milliseconds, eight in ten within this share of them on either side."""
    low, high = (tuple(sign * ms for ms in passes) for sign in (1 - spread, 1 + spread))
    return replace(STAIRS, rows=rows, verify_ms=passes, verify_low_ms=low, verify_high_ms=high,
                   draft_ms=(1.0,) * len(rows))


# Measured with SmolLM2: its products (engine/LOG.md); and passes in bfloat16, where 4 rows are no dearer than 1
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
def test_no_best_is_predicted_where_more_rows_took_less_time_beyond_the_noise(
        curve: CostCurve, sizes: tuple[int, ...]) -> None:
    assert bool(curve.disorder) == bool(sizes)
    assert not sizes or f"{sizes[0]} rows took" in curve.disorder and f"one over {sizes[1]} rows" in curve.disorder
