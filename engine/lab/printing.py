"""Figures as they are printed: whoever divides two of them by hand gets the third."""

from __future__ import annotations

from dataclasses import dataclass

MOST_DECIMALS = 9


@dataclass(frozen=True)
class Division:
    """Three printed figures: dividend ÷ divisor = quotient, to the quotient's digits."""

    dividend: str
    divisor: str
    quotient: str


def ratio_text(ratio: float) -> str:
    """A ratio of speeds: one decimal from 2 on, two below, four below a tenth."""
    decimals = 1 if round(ratio, 2) >= 2 else 2 if ratio >= 0.1 else 4
    return f"{ratio:.{decimals}f}"


def rate_decimals(rate: float) -> int:
    """With how many decimals a rate is printed where nothing else is asked."""
    return 1 if rate < 20 else 0


def division(dividend: float, ratio: float, decimals: int) -> Division:
    """A figure that is printed elsewhere too, with so many ``decimals``, and what it is divided by, with as few
    decimals, one at the least, as make the division come out."""
    printed, quotient = f"{dividend:.{decimals}f}", ratio_text(ratio)
    for digits in range(1, MOST_DECIMALS):
        for exact in (float(printed) / ratio, float(printed) / float(quotient)):
            divisor = f"{exact:.{digits}f}"
            if float(divisor) and ratio_text(float(printed) / float(divisor)) == quotient:
                return Division(printed, divisor, quotient)
    raise ValueError(f"{dividend} and a ratio of {ratio} have no printed division.")


def rates(dividend: float, divisor: float) -> Division:
    """Two rates, with as few decimals as make the division come out."""
    quotient = ratio_text(dividend / divisor)
    for more in range(MOST_DECIMALS):
        over, under = (f"{rate:.{rate_decimals(divisor) + more}f}" for rate in (dividend, divisor))
        if float(under) and ratio_text(float(over) / float(under)) == quotient:
            return Division(over, under, quotient)
    return division(dividend, dividend / divisor, rate_decimals(dividend))
