"""Whoever divides two printed figures by hand gets the third."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from engine.lab.report import division, rates, ratio_text

RATIOS = st.floats(0.01, 30)


@given(st.floats(1, 40), RATIOS)
@example(1.435, 1.435)
@example(1.4, 1.5)
def test_tokens_per_round_divided_by_the_cost_of_a_round_are_the_speed_up(tau: float, ratio: float) -> None:
    made = division(tau, ratio, 2)
    assert made.dividend == f"{tau:.2f}" and made.quotient == ratio_text(ratio)
    assert ratio_text(float(made.dividend) / float(made.divisor)) == made.quotient
    assert abs(float(made.divisor) * ratio - tau) <= 0.12 * ratio + 0.2 * tau  # still that figure


@given(st.floats(0.5, 5000), RATIOS)
@example(66.4, 1.43)
@example(165, 1.435)
def test_two_speeds_divide_as_printed(plain: float, ratio: float) -> None:
    made = rates(plain * ratio, plain)
    assert ratio_text(float(made.dividend) / float(made.divisor)) == made.quotient == ratio_text(plain * ratio / plain)
    assert abs(float(made.divisor) - plain) <= 0.02 * plain + 0.06


def test_figures_keep_few_decimals() -> None:
    assert rates(112.4, 79.2).dividend in ("112", "112.4") and rates(3.2, 2.0).divisor == "2.0"
    assert division(1.98, 1.42, 2).divisor in ("1.39", "1.4")
