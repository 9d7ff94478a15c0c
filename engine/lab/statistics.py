"""Intervals of shares, means and medians; histogram, acceptance by depth and rank, and calibration of readings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb, isnan, sqrt
from statistics import fmean, median, stdev

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.lab.reading import Reading

CONFIDENCE = 0.95
TWO_SIDED = 1.96  # standard errors that hold 95 % of a normal distribution
RESAMPLES, SEED = 2000, 0  # of the bootstrap
MAX_RESAMPLED = 500
Figures = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """A share or a mean over ``count`` rows or rounds, with its 95 % interval."""

    value: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def share_of(hits: int, count: int) -> Measured:
    """Return a share with Wilson's interval; ``count`` ≥ 1."""
    value, square = hits / count, TWO_SIDED**2
    middle, half = value + square / (2 * count), TWO_SIDED * sqrt(
        value * (1 - value) / count + square / (4 * count**2))
    scale = 1 + square / count
    return Measured(value, max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale), count)


def mean_of(values: Sequence[float]) -> Measured:
    """Return a mean with its bootstrap interval, or the normal one above ``MAX_RESAMPLED`` values."""
    low, high = (_normal_interval(values) if len(values) > MAX_RESAMPLED else
                 bootstrap_interval(values, lambda sums: sums / len(values)))
    return Measured(fmean(values), low, high, len(values))


def _normal_interval(values: Sequence[float]) -> tuple[float, float]:
    middle, half = fmean(values), TWO_SIDED * stdev(values) / sqrt(len(values))
    return middle - half, middle + half


def bootstrap_interval(values: ArrayLike, figure: Callable[[Figures], Figures]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a ``figure`` of the sums of values (n, …); it is reproducible."""
    table = np.asarray(values, np.float64)
    drawn = np.random.default_rng(SEED).integers(0, len(table), (RESAMPLES, len(table)))
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(figure(table[drawn].sum(1)), [outside, 1 - outside])
    return float(low), float(high)


@dataclass(frozen=True)
class Estimate:
    """A median over prompts. ``low`` and ``high`` bound the true one at 95 % (None with too few prompts); ``minimum``
    and ``maximum`` are of the values seen."""

    median: float
    low: float | None
    high: float | None
    minimum: float
    maximum: float
    prompts: int

    @property
    def span(self) -> tuple[float, float]:
        """The interval, or the extremes if there are too few prompts for one."""
        return (self.minimum, self.maximum) if self.low is None or self.high is None else (self.low, self.high)


def estimate(values: Sequence[float]) -> Estimate:
    """Return the median of one value per prompt, with its interval between two order statistics.

    The interval of ranks k and n + 1 − k holds the true median with probability 1 − 2 P(Bin(n, ½) < k), whatever the
    distribution. A bootstrap of few prompts promises 95 % and holds less.
    """
    ordered = sorted(values)
    rank = interval_rank(len(ordered))
    low, high = (ordered[rank - 1], ordered[-rank]) if rank else (None, None)
    return Estimate(median(ordered), low, high, ordered[0], ordered[-1], len(ordered))


def interval_rank(count: int) -> int:
    """Return the largest rank k whose interval has the confidence; 0 below 6 values."""
    outside, rank = 0.0, 0
    while rank < count // 2:
        outside += 2 * comb(count, rank) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        rank += 1
    return rank


def histogram(readings: Sequence[Reading]) -> tuple[int, ...]:
    """Count the rounds that committed 1, 2, 3 … tokens, root included (paper 002, Figure 4)."""
    return tuple(np.bincount([length for reading in readings for length in reading.lengths])[1:].tolist())


@dataclass(frozen=True)
class DepthRank:
    """Acceptance at one depth (from 1) and rank (from 0). ``reached``: rounds that accepted the depth above;
    ``proposed``: their trees with a token of this rank; ``accepted``: how many of these were accepted."""

    depth: int
    rank: int
    reached: int
    proposed: int
    accepted: int

    @property
    def rate(self) -> float:
        return self.accepted / self.proposed


def acceptance(readings: Sequence[Reading]) -> tuple[DepthRank, ...]:
    """Count acceptance at every depth and rank that occurs, shallow depths first."""
    cells: list[DepthRank] = []
    for depth in range(max((len(reading.acceptance.reached) for reading in readings), default=0)):
        counts = [reading.acceptance for reading in readings if len(reading.acceptance.reached) > depth]
        reached = sum(count.reached[depth] for count in counts)
        proposed = np.sum([count.proposed[depth] for count in counts], 0).tolist()
        accepted = np.sum([count.accepted[depth] for count in counts], 0).tolist()
        cells += [DepthRank(depth + 1, rank, reached, held, accepted[rank])
                  for rank, held in enumerate(proposed) if held]
    return tuple(cells)


@dataclass(frozen=True)
class CalibrationBin:
    """Rounds of similar expected length: its mean, the mean realised length, and the latter's 95 % interval."""

    expected: float
    realised: float
    low: float | None
    high: float | None
    rounds: int


@dataclass(frozen=True)
class Calibration:
    """Calibration of a drafter. ``excess``: expected over realised accepted draft tokens; above 1 it is over-confident,
    None if nothing was accepted."""

    bins: tuple[CalibrationBin, ...]
    expected: float
    realised: float
    excess: float | None


def calibration(readings: Sequence[Reading], max_bins: int = 10) -> Calibration | None:
    """Compare expected lengths 1 + Σ q with realised ones, in bins of equal count; None if no round counts."""
    pairs = sorted(pair for reading in readings for pair in calibration_pairs(reading))
    if not pairs:
        return None
    count = min(max_bins, len(pairs))
    ends = [len(pairs) * number // count for number in range(count + 1)]
    bins = [pairs[begin:end] for begin, end in pairwise(ends)]
    expected, realised = (fmean(pair[side] for pair in pairs) for side in (0, 1))
    calibrated = []
    for rounds in bins:
        lengths = [length for _, length in rounds]
        low, high = _normal_interval(lengths) if len(lengths) > 1 else (None, None)
        calibrated.append(CalibrationBin(fmean(mean for mean, _ in rounds), fmean(lengths), low, high, len(rounds)))
    return Calibration(tuple(calibrated), expected, realised, (expected - 1) / (realised - 1) if realised > 1 else None)


def calibration_pairs(reading: Reading) -> list[tuple[float, int]]:
    """Return expected and realised lengths of the rounds that drafted, were not cut short, and have probabilities."""
    last = len(reading.lengths) - reading.cut
    rounds = zip(reading.expected[:last], reading.lengths[:last], reading.rows[:last], strict=True)
    return [(expected, length) for expected, length, rows in rounds if rows > 1 and not isnan(expected)]
