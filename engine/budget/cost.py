"""What a round costs on this machine: measured milliseconds by the number of rows. Torch-free.

A cost curve is a staircase, because kernels come in sizes; it is interpolated between measured neighbours. Each curve
is for one context length. ``RoundCost`` measures nothing: it learns from the rounds of a batch how much longer one with
more rows takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

MAX_DELAY = 2.0  # a round counts as at most twice its predicted duration: other programs delayed it
DECAY = 0.98  # weight of the past in ``RoundCost``, per round
ORIGIN_WEIGHT = 0.5  # weight of a point at the origin: until sizes differ, time is proportional to rows
MIN_ROUNDS = 3  # seen before ``RoundCost`` clips a delayed one
MIN_FALL = 0.05  # relative: if more rows take less time by a smaller fraction, it is noise


@dataclass(frozen=True)
class CostCurve:
    """Medians of interleaved repeats, in milliseconds, of rounds after a prefix of ``context`` tokens.

    Args:
        rows: numbers of rows, ascending from 1. The next four are for each of them.
        verify_ms: one target pass; ``verify_low_ms`` and ``verify_high_ms`` are the tenth and ninetieth percentiles.
        draft_ms: one draft of as many rows, root included, with observing the previous round's tokens; 0 without a
            drafter.
        overhead_ms: the rest of a round except building trees: packing, accepting, keeping.
        plain_ms: a whole round of decoding without a drafter.
        sampling: ``greedy`` or ``sampled``, because processing a distribution takes time.
    """

    rig: str
    hardware: str
    dtype: str
    sampling: str
    context: int
    repeats: int
    rows: tuple[int, ...]
    verify_ms: tuple[float, ...]
    verify_low_ms: tuple[float, ...]
    verify_high_ms: tuple[float, ...]
    draft_ms: tuple[float, ...]
    overhead_ms: float
    plain_ms: float

    @property
    def unusable_reason(self) -> str:
        """Why no best budget can be predicted from this curve; "" if one can.

        It is unusable if a pass over more rows was faster, beyond noise: each median lies outside the other's 80 %
        interval.
        """
        passes = list(zip(self.rows, self.verify_ms, self.verify_low_ms, self.verify_high_ms, strict=True))
        falls = [(fewer, more) for fewer, more in combinations(passes, 2) if fewer[1] > more[3] and more[1] < fewer[2]
                 and fewer[1] > (1 + MIN_FALL) * more[1]]
        if not falls:
            return ""
        fewer, more = max(falls, key=lambda pair: pair[0][1] / pair[1][1])
        return (f"No best budget is predicted: a pass over {fewer[0]} rows took {fewer[1]:.1f} ms ({fewer[2]:.1f} to "
                f"{fewer[3]:.1f}), longer than one over {more[0]} rows, {more[1]:.1f} ms ({more[2]:.1f} to "
                f"{more[3]:.1f}). Measure again on a quiet machine, or run a sweep.")

    def monotonic(self) -> CostCurve:
        """Return a monotonic curve, each size at most as expensive as the next: other programs only add time."""
        def smoothed(milliseconds: tuple[float, ...]) -> tuple[float, ...]:
            return tuple(np.minimum.accumulate(milliseconds[::-1])[::-1].tolist())

        return replace(self, verify_ms=smoothed(self.verify_ms), verify_low_ms=smoothed(self.verify_low_ms),
                       verify_high_ms=smoothed(self.verify_high_ms), draft_ms=smoothed(self.draft_ms))

    def verify_at(self, rows: int) -> float:
        return interpolate(self.rows, self.verify_ms, rows)

    def draft_at(self, budget: int) -> float:
        return interpolate(self.rows, self.draft_ms, budget + 1)

    def round_ms(self, rows: int, budget: int, drafter_count: int, build_ms: float = 0.0) -> float:
        """Return the milliseconds of a round that verifies ``rows`` rows, from drafts of ``budget`` nodes each."""
        if drafter_count == 0:
            return self.plain_ms
        return drafter_count * self.draft_at(budget) + build_ms + self.verify_at(rows) + self.overhead_ms


def interpolate(rows: Sequence[int], milliseconds: Sequence[float], at: float) -> float:
    """Interpolate at a number of rows. Beyond the last, extrapolate from half as many rows, because the last two may be
    on one step of the staircase."""
    last, half = rows[-1], max(rows[0], rows[-1] / 2)
    if at <= last or half == last:
        return float(np.interp(at, rows, milliseconds))
    slope = (milliseconds[-1] - float(np.interp(half, rows, milliseconds))) / (last - half)
    return milliseconds[-1] + max(0.0, slope) * (at - last)


class RoundCost:
    """A line fitted to recent rounds: seconds by the number of rows."""

    def __init__(self) -> None:
        self._count = self._rows = self._seconds = self._squares = self._products = 0.0

    def learn(self, rows: int, seconds: float) -> None:
        """Add a round to the fit; a delayed one counts as at most ``MAX_DELAY`` times its prediction."""
        if self._count > MIN_ROUNDS:
            seconds = min(seconds, MAX_DELAY * self.seconds(rows))
        self._count = DECAY * self._count + 1
        self._rows = DECAY * self._rows + rows
        self._seconds = DECAY * self._seconds + seconds
        self._squares = DECAY * self._squares + rows * rows
        self._products = DECAY * self._products + rows * seconds

    def seconds(self, rows: int) -> float:
        count = self._count + ORIGIN_WEIGHT
        mean_rows, mean_seconds = self._rows / count, self._seconds / count
        spread = self._squares / count - mean_rows**2
        slope = max(0.0, (self._products / count - mean_rows * mean_seconds) / spread) if spread > 0 else 0.0
        return max(0.0, mean_seconds + slope * (rows - mean_rows))
