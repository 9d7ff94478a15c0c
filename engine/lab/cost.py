"""What a round costs on this machine: milliseconds against rows, as measured. Torch-free.

Nothing is assumed about the shape: a pass is a staircase where kernels or captured graphs come in sizes, so the
curve is read between its two measured neighbours and a choice of rows enumerates, it never climbs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CostCurve:
    """Medians of interleaved repeats, in milliseconds, at a prefix of ``context`` tokens.

    ``rows`` ascend and begin with 1; ``verify_ms``, ``verify_low_ms`` and ``verify_high_ms`` are the median, the
    tenth and the ninetieth percentile of one target pass over so many rows; ``draft_ms`` is a drafter's draft when the
    budget is rows − 1, its reading of what the round before kept included (0 where the rig has no drafter).
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

    def verify_at(self, rows: int) -> float:
        """Milliseconds of a pass over ``rows`` rows, read between the measured neighbours; beyond the last one the
        line through the last two goes on."""
        return _read(self.rows, self.verify_ms, rows)

    def draft_at(self, budget: int) -> float:
        """Milliseconds of one drafter's draft for a budget of ``budget`` nodes."""
        return _read(self.rows, self.draft_ms, budget + 1)

    def round_ms(self, rows: int, budget: int, drafters: int, build_ms: float = 0.0) -> float:
        """Milliseconds of a whole round that verifies ``rows`` rows out of a draft for ``budget`` nodes."""
        if drafters == 0:
            return self.plain_ms
        return drafters * self.draft_at(budget) + build_ms + self.verify_at(rows) + self.overhead_ms


def _read(rows: tuple[int, ...], milliseconds: tuple[float, ...], at: int) -> float:
    if at <= rows[-1] or len(rows) < 2:
        return float(np.interp(at, rows, milliseconds))
    slope = (milliseconds[-1] - milliseconds[-2]) / (rows[-1] - rows[-2])
    return milliseconds[-1] + max(0.0, slope) * (at - rows[-1])
