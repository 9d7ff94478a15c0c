"""Printed speeds divide to the printed ratio, and stay close to the measured value."""

from hypothesis import example, given
from hypothesis import strategies as st

from engine.lab.speed import FASTER, SIMILAR, SLOWER, rate_text, seconds_text, speed_record

RATES, RATIOS = st.floats(0.5, 5000), st.floats(0.01, 30)


def divides_as_printed(dividend: float, divisor: str, quotient: str) -> bool:
    """Return whether dividing the printed values gives the printed quotient, rounded alike."""
    decimals = len(quotient.partition(".")[2])
    whole = max(0, len(quotient) - 3) if not decimals else 0  # 1230 is rounded to tens
    return f"{round(dividend / float(divisor), decimals - whole):.{decimals}f}" == quotient


@given(RATES, RATIOS)
@example(358, 2.45)
@example(163, 3.7)
@example(66.4, 1.43)
def test_two_speeds_divide_as_printed_and_the_ratio_lies_in_its_range(plain: float, ratio: float) -> None:
    record = speed_record(plain * ratio, plain, ratio * 0.999, ratio * 1.001)
    assert divides_as_printed(float(record.speed), record.plain_speed, record.times.removesuffix("×"))
    assert abs(record.ratio - ratio) <= 0.011 * ratio
    low, high = map(float, record.range.split(" to "))
    assert low <= float(record.times.removesuffix("×")) <= high


def test_speeds_have_three_digits() -> None:
    assert [rate_text(rate) for rate in (112.4, 79.2, 3.2, 1234.0)] == ["112", "79.2", "3.20", "1230"]


@given(st.integers(1, 5000), RATES)
@example(98, 611.0)
def test_tokens_divided_by_the_printed_seconds_are_the_printed_speed(tokens: int, rate: float) -> None:
    assert divides_as_printed(tokens, seconds_text(tokens, rate_text(rate)), rate_text(rate))


def test_a_ratio_is_called_faster_or_slower_by_its_printed_range() -> None:
    assert speed_record(120, 100, 1.1, 1.3).outcome == FASTER
    assert speed_record(80, 100, 0.7, 0.9).outcome == SLOWER
    assert speed_record(101, 100, 1.001, 1.02).outcome == SIMILAR
    assert speed_record(120, 100).outcome == speed_record(120, 100).range == ""
