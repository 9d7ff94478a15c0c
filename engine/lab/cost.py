"""What a round costs on this machine: milliseconds against rows, as measured. Torch-free.

Nothing is assumed about the shape: a pass is a staircase where kernels or captured graphs come in sizes, so the
curve is read between its two measured neighbours and a choice of rows enumerates, it never climbs.

A curve is one of so many requests at once, whose rows share a pass: the columns of rows × requests × context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class CostCurve:
    """Medians of interleaved repeats, in milliseconds, of rounds that ``requests`` requests share, each with a prefix
    of ``context`` tokens.

    ``rows`` are those of all requests together; they ascend and begin with a root for each. ``verify_ms``,
    ``verify_low_ms`` and ``verify_high_ms`` are the median, the tenth and the ninetieth percentile of one target pass
    over so many rows; ``draft_ms`` is a drafter's draft for all of them when their budgets and roots are so many rows
    together, its reading of what the round before kept included (0 where the rig has no drafter).
    ``overhead_ms`` is what a round costs besides, the building of its trees aside: packing, accepting, keeping.
    ``plain_ms`` is a whole round of decoding without a drafter. ``sampling`` is ``greedy`` or ``sampled``: processing
    a distribution takes time.
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

    def verify_at(self, rows: int) -> float:
        """Milliseconds of a pass over ``rows`` rows, interpolated between the measured neighbours; beyond the last one,
        along the line through the last two."""
        return _read(self.rows, self.verify_ms, rows)

    def verify_low_at(self, rows: int) -> float:
        """The same of the tenth percentiles, which the adaptive budget uses."""
        return _read(self.rows, self.verify_low_ms, rows)

    def draft_at(self, budget: int) -> float:
        """Milliseconds of one drafter's draft for all requests, each with a budget of ``budget`` nodes."""
        return _read(self.rows, self.draft_ms, self.requests * (budget + 1))

    def round_ms(self, rows: int, budget: int, drafters: int, build_ms: float = 0.0) -> float:
        """Milliseconds of a whole round that verifies ``rows`` rows, of all requests together, out of drafts for
        ``budget`` nodes each."""
        if drafters == 0:
            return self.plain_ms
        return drafters * self.draft_at(budget) + build_ms + self.verify_at(rows) + self.overhead_ms

    def even_round_ms(self, budget: int, drafters: int, build_ms: float = 0.0) -> float:
        """Milliseconds of a whole round in which every request drafts and verifies ``budget`` nodes."""
        return self.round_ms(self.requests * (budget + 1), budget, drafters, build_ms)


LoadCost = Callable[[int], CostCurve]  # the curve of so many requests at once


def between(fewer: CostCurve, more: CostCurve, requests: int) -> CostCurve:
    """The curve of a number of requests between two measured ones, by linear interpolation."""
    share = (requests - fewer.requests) / (more.requests - fewer.requests)
    rows = (requests, *sorted({size for size in (*fewer.rows, *more.rows) if size > requests}))

    def mixed(one: float, other: float) -> float:
        return one + share * (other - one)

    def passes(name: str) -> tuple[float, ...]:
        return tuple(mixed(*(_read(curve.rows, getattr(curve, name), size) for curve in (fewer, more)))
                     for size in rows)

    return replace(
        fewer, requests=requests, repeats=min(fewer.repeats, more.repeats), rows=rows, verify_ms=passes("verify_ms"),
        verify_low_ms=passes("verify_low_ms"), verify_high_ms=passes("verify_high_ms"),
        draft_ms=tuple(mixed(*(_read(curve.rows, curve.draft_ms, curve.requests * size / requests)
                               for curve in (fewer, more))) for size in rows),
        overhead_ms=mixed(fewer.overhead_ms, more.overhead_ms), plain_ms=mixed(fewer.plain_ms, more.plain_ms))


def _read(rows: tuple[int, ...], milliseconds: tuple[float, ...], at: float) -> float:
    if at <= rows[-1] or len(rows) < 2:
        return float(np.interp(at, rows, milliseconds))
    slope = (milliseconds[-1] - milliseconds[-2]) / (rows[-1] - rows[-2])
    return milliseconds[-1] + max(0.0, slope) * (at - rows[-1])
