"""Formats measured speeds, and compares them with plain decoding's, for every view, table and file."""

from dataclasses import dataclass
from math import floor, log10

RATE_DIGITS = 3  # significant ones, of tokens per second
FASTER, SLOWER, SIMILAR = "faster", "slower", "similar"


def significant(value: float, digits: int) -> str:
    """Format a positive number with ``digits`` significant digits, without an exponent; "0" for 0."""
    if value <= 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    return f"{rounded:.{max(0, digits - 1 - floor(log10(rounded)))}f}"


def rate_text(rate: float) -> str:
    """Format tokens per second."""
    return significant(rate, RATE_DIGITS)


def ratio_text(ratio: float) -> str:
    """Format a ratio of speeds: one decimal from 2 on, two below, two significant digits below a tenth."""
    if ratio < 0.1:
        return significant(ratio, 2)
    return f"{ratio:.1f}" if round(ratio, 2) >= 2 else f"{ratio:.2f}"


def seconds_text(tokens: int, rate: str) -> str:
    """Format the seconds that ``tokens`` take at a printed rate, with one digit more than the rate."""
    return significant(tokens / float(rate), RATE_DIGITS + 1)


@dataclass(frozen=True)
class SpeedRecord:
    """The speeds of a run and of plain decoding in tokens per second, as printed: ``speed`` ÷ ``plain_speed`` =
    ``times``.

    ``range`` holds the ratio at 95 %; ``outcome`` is one of the constants above. If ``withheld`` says why no speed-up
    is reported, only ``speed`` is set, by the run's own clock; ``again``: measuring again may help.
    """

    speed: str = ""
    plain_speed: str = ""
    ratio: float = 0.0
    times: str = ""
    range: str = ""
    outcome: str = ""
    withheld: str = ""
    again: bool = False


def speed_record(speed: float, plain_speed: float, low: float | None = None, high: float | None = None) -> SpeedRecord:
    """Return the record of two speeds; ``low`` and ``high`` bound their ratio, if enough was measured for that."""
    printed, plain = rate_text(speed), rate_text(plain_speed)
    ratio = float(printed) / float(plain)
    times = f"{ratio_text(ratio)}×"
    if low is None or high is None:
        return SpeedRecord(printed, plain, ratio, times)
    minimum, maximum = ratio_text(min(low, ratio)), ratio_text(max(high, ratio))
    outcome = FASTER if float(minimum) > 1 else SLOWER if float(maximum) < 1 else SIMILAR
    return SpeedRecord(printed, plain, ratio, times, f"{minimum} to {maximum}", outcome)
