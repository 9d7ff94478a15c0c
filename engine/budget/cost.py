"""What a round costs on this machine: measured milliseconds by the number of rows. Torch-free.

Nothing is assumed about the curve's shape: it is a staircase where kernels come in sizes. So it is
interpolated between measured neighbours, and a choice of a number of rows tries all sizes instead of descending.

Each curve is for one number of requests at once, whose rows share a pass, and for one context length. A curve takes
seconds of a rig of one's own to measure. Where there are none, because runs of other budgets are at work, ``RoundCost``
tells from the rounds themselves how much longer one with more rows takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

HELD_UP = 2.0  # times what it should take: the most that a round counts as, if other programs held it up
MEMORY = 0.98  # weight of the previous round, of a ``RoundCost``
ORIGIN = 0.5  # weight, in rounds, of a point at no rows and no time: until sizes differ, time is proportional to rows
SETTLED = 3  # rounds that a ``RoundCost`` has to know before it judges one to have been held up
LEAST_FALL = 0.05  # of a pass: below it, what more rows save is noise whatever the repeats' own spread


@dataclass(frozen=True)
class CostCurve:
    """Medians of interleaved repeats, in milliseconds, of rounds that ``requests`` requests share, each with a prefix
    of ``context`` tokens.

    ``rows`` count those of all requests together; they ascend, and begin with one root for each. ``verify_ms``,
    ``verify_low_ms`` and ``verify_high_ms`` are the median, the tenth and the ninetieth percentile of one target pass
    over so many rows; ``draft_ms`` is one drafter's draft for all requests when their budgets and roots make so many
    rows, including its reading of what the round before kept (0 where the rig has no drafter). ``overhead_ms`` is the
    rest of a round except building trees: packing, accepting, keeping. ``plain_ms`` is a whole round of decoding
    without a drafter. ``sampling`` is ``greedy`` or ``sampled``: processing a distribution takes time.
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
    requests: int = 1

    @property
    def disorder(self) -> str:
        """Why no best budget may be predicted from it, in a sentence: more rows took less time than fewer, beyond the
        noise, so that each median lies outside the other's eight passes in ten. Empty where there is no such pair."""
        passes = list(zip(self.rows, self.verify_ms, self.verify_low_ms, self.verify_high_ms, strict=True))
        falls = [(fewer, more) for fewer, more in combinations(passes, 2) if fewer[1] > more[3] and more[1] < fewer[2]
                 and fewer[1] > (1 + LEAST_FALL) * more[1]]
        if not falls:
            return ""
        fewer, more = max(falls, key=lambda pair: pair[0][1] / pair[1][1])
        return (f"No best budget is predicted: a pass over {fewer[0]} rows took {fewer[1]:.1f} ms ({fewer[2]:.1f} to "
                f"{fewer[3]:.1f}) and one over {more[0]} rows {more[1]:.1f} ms ({more[2]:.1f} to {more[3]:.1f}), so "
                "other programs slowed some sizes, or this processor is slow at just that size; measure again when the "
                "machine is quiet, or measure the budgets themselves.")

    def verify_at(self, rows: int) -> float:
        """Milliseconds of a pass over ``rows`` rows."""
        return interpolate(self.rows, self.verify_ms, rows)

    def draft_at(self, budget: int) -> float:
        """Milliseconds of one drafter's draft for all requests, each with a budget of ``budget`` nodes."""
        return interpolate(self.rows, self.draft_ms, self.requests * (budget + 1))

    def round_ms(self, rows: int, budget: int, drafter_count: int, build_ms: float = 0.0) -> float:
        """Milliseconds of a whole round that verifies ``rows`` rows of all requests together, from drafts of ``budget``
        nodes each."""
        if drafter_count == 0:
            return self.plain_ms
        return drafter_count * self.draft_at(budget) + build_ms + self.verify_at(rows) + self.overhead_ms


CostByConcurrency = Callable[[int], CostCurve]  # (number of requests at once) -> its curve


def between(fewer: CostCurve, more: CostCurve, requests: int) -> CostCurve:
    """The curve of a number of requests between two measured ones, by linear interpolation."""
    share = (requests - fewer.requests) / (more.requests - fewer.requests)
    rows = (requests, *sorted({size for size in (*fewer.rows, *more.rows) if size > requests}))

    def mixed(one: float, other: float) -> float:
        return one + share * (other - one)

    def passes(name: str) -> tuple[float, ...]:
        return tuple(mixed(*(interpolate(curve.rows, getattr(curve, name), size) for curve in (fewer, more)))
                     for size in rows)

    return replace(
        fewer, requests=requests, repeats=min(fewer.repeats, more.repeats), rows=rows, verify_ms=passes("verify_ms"),
        verify_low_ms=passes("verify_low_ms"), verify_high_ms=passes("verify_high_ms"),
        draft_ms=tuple(mixed(*(interpolate(curve.rows, curve.draft_ms, curve.requests * size / requests)
                               for curve in (fewer, more))) for size in rows),
        overhead_ms=mixed(fewer.overhead_ms, more.overhead_ms), plain_ms=mixed(fewer.plain_ms, more.plain_ms))


def interpolate(rows: Sequence[int], milliseconds: Sequence[float], at: float) -> float:
    """The value at so many rows, between measured neighbours; beyond the last, along the line through the last two."""
    if at <= rows[-1] or len(rows) < 2:
        return float(np.interp(at, rows, milliseconds))
    slope = (milliseconds[-1] - milliseconds[-2]) / (rows[-1] - rows[-2])
    return milliseconds[-1] + max(0.0, slope) * (at - rows[-1])


class RoundCost:
    """The seconds that a round takes by its number of rows: a line fitted to the recent rounds."""

    def __init__(self) -> None:
        self._count = self._rows = self._seconds = self._squares = self._products = 0.0

    def learn(self, rows: int, seconds: float) -> None:
        """Take note of a round. One that other programs held up counts as ``HELD_UP`` times its cost at most."""
        if self._count > SETTLED:
            seconds = min(seconds, HELD_UP * self.of(rows))
        self._count = MEMORY * self._count + 1
        self._rows = MEMORY * self._rows + rows
        self._seconds = MEMORY * self._seconds + seconds
        self._squares = MEMORY * self._squares + rows * rows
        self._products = MEMORY * self._products + rows * seconds

    def of(self, rows: int) -> float:
        """The seconds that a round of this many rows takes."""
        count = self._count + ORIGIN
        mean_rows, mean_seconds = self._rows / count, self._seconds / count
        spread = self._squares / count - mean_rows**2
        slope = max(0.0, (self._products / count - mean_rows * mean_seconds) / spread) if spread > 0 else 0.0
        return max(0.0, mean_seconds + slope * (rows - mean_rows))
