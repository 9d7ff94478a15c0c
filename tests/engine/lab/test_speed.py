"""What is printed of speeds divides as it is printed, and stays the figure that was measured."""

from hypothesis import example, given
from hypothesis import strategies as st

from engine.lab.speed import ALIKE, FASTER, SLOWER, cost_text, divisor_text, rate_text, ratio_text, speed_record

RATES, RATIOS = st.floats(0.5, 5000), st.floats(0.01, 30)


def divides(dividend: float, divisor: str, quotient: str) -> bool:
    """Whether the quotient of what is printed, rounded as the printed one is, is that."""
    decimals = len(quotient.partition(".")[2])
    whole = max(0, len(quotient) - 3) if not decimals else 0  # 1230 is printed to the tens
    return f"{round(dividend / float(divisor), decimals - whole):.{decimals}f}" == quotient


@given(RATES, RATIOS)
@example(358, 2.45)
@example(163, 3.7)
@example(66.4, 1.43)
def test_two_speeds_divide_as_printed_and_the_ratio_lies_in_its_range(plain: float, ratio: float) -> None:
    record = speed_record(plain * ratio, plain, ratio * 0.999, ratio * 1.001)
    assert divides(float(record.speed), record.plain_speed, record.times.removesuffix("×"))
    assert abs(record.ratio - ratio) <= 0.011 * ratio
    low, high = map(float, record.range.split(" to "))
    assert low <= float(record.times.removesuffix("×")) <= high


@given(st.floats(1, 40), RATIOS)
@example(1.435, 1.435)
@example(3.46, 1.83)
def test_tokens_per_round_divided_by_the_cost_of_a_round_are_the_speed_up(tau: float, ratio: float) -> None:
    printed, quotient = float(f"{tau:.2f}"), ratio_text(ratio)
    cost = cost_text(printed, quotient)
    assert divides(printed, cost, quotient) and abs(float(cost) * ratio - tau) <= 0.06 * tau
    assert len(cost.replace(".", "").lstrip("0")) <= 5


def test_figures_keep_few_decimals() -> None:
    assert [cost_text(tau, ratio) for tau, ratio in ((6.0, "1.45"), (9.71, "2.4"), (12.25, "3.7"), (1.44, "0.50"))] == [
        "4.14", "4.0", "3.31", "2.88"]
    assert [rate_text(rate) for rate in (112.4, 79.2, 3.2, 1234.0)] == ["112", "79.2", "3.20", "1230"]


@given(st.integers(1, 5000), RATES)
@example(98, 611.0)
def test_tokens_divided_by_the_printed_seconds_are_the_printed_speed(tokens: int, rate: float) -> None:
    assert divides(tokens, divisor_text(tokens, rate_text(rate)), rate_text(rate))


def test_a_ratio_is_said_to_be_faster_or_slower_by_its_printed_range() -> None:
    assert speed_record(120, 100, 1.1, 1.3).standing == FASTER
    assert speed_record(80, 100, 0.7, 0.9).standing == SLOWER
    assert speed_record(101, 100, 1.001, 1.02).standing == ALIKE
    assert speed_record(120, 100).standing == speed_record(120, 100).range == ""
