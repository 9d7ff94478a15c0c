"""Measures cost curves: the median times of mock rounds over trees of every size, in shuffled order, for one request or
for several whose rounds share their passes.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from math import log2
from time import perf_counter

import numpy as np
import torch

from engine.budget.cost import CostCurve, between
from engine.decoding.loop import step
from engine.decoding.plan import Drafter
from engine.records import Request, Sampling
from engine.serving.mock import CHAIN, MockRun
from engine.serving.rigs import Rig

# every budget plus the root, and whole blocks of a kernel: the cost may jump after 4, 8, 16, 32 or 64 rows
ROWS = (1, 2, 3, 4, 5, 8, 9, 12, 13, 16, 17, 25, 32, 33, 49, 64, 65, 97, 129, 193, 257, 385, 513, 769, 1025)
BATCH_ROWS = (*ROWS, 11, 21, 29, 41, 57, 81, 113, 145, 161)  # finer: one choice adds rows to several trees
MOST_BATCH_ROWS = 513  # of several requests: beyond, time grows with arithmetic alone, along a line
FEWEST_REPEATS, MOST_REPEATS = 4, 24
SMALL = 129  # later repeats measure up to so many rows: there a tenth of a millisecond decides between budgets
PLAIN_ROUNDS = 6
SMALLEST_CONTEXT = 64
GROWTH = 4  # a prefix is read anew before mock rounds have lengthened it by a quarter
NEAR = 2.0  # powers of two: how far off a curve's context length may be for a run at its own pace


@dataclass(frozen=True)
class Effort:
    """How long measuring a curve may take: about ``seconds``. The first pass that takes longer than ``dearest`` single
    rows and than ``dearest_ms`` milliseconds is the last that is measured."""

    seconds: float
    dearest: float
    dearest_ms: float


FULL = Effort(4.0, 12.0, 250.0)  # no tree pays in a dearer pass
QUICK = Effort(1.0, 4.0, 0.0)  # while a run waits for the curve


@dataclass(frozen=True)
class Mock:
    """One timed mock round of ``rows`` rows, in milliseconds."""

    rows: int
    draft_ms: float
    verify_ms: float
    overhead_ms: float

    @property
    def round_ms(self) -> float:
        """Drafting, verifying and overhead together."""
        return self.draft_ms + self.verify_ms + self.overhead_ms


@dataclass(frozen=True)
class CostCase:
    """What a curve is measured for: the context length in tokens, the sampling, and how many requests at once."""

    context: int
    sampling: Sampling
    requests: int = 1

    @property
    def rows(self) -> tuple[int, ...]:
        """The numbers of rows to measure passes of."""
        if self.requests == 1:
            return ROWS
        return (self.requests, *(size for size in sorted(BATCH_ROWS) if self.requests < size <= MOST_BATCH_ROWS))

    @property
    def drawing(self) -> str:
        """The sampling as a curve names it."""
        return "sampled" if self.sampling.temperature else "greedy"

    @property
    def kind(self) -> Hashable:
        """A key that cases of equal cost share: computing a distribution takes time, and so does cutting it, but the
        temperature makes no difference. So there are few kinds, whatever people ask for."""
        sampling = self.sampling
        work = (True, sampling.top_k > 0, sampling.top_p < 1) if sampling.temperature > 0 else ()
        return self.context, self.requests, work


class CostBook:
    """A rig's cost curves: each is measured when it is first asked for, and kept. Needs the target to itself."""

    def __init__(self, rig: Rig, effort: Effort = FULL) -> None:
        self.rig, self._effort = rig, effort
        self._curves: dict[Hashable, CostCurve] = {}  # by the kind of case
        self._quick: dict[Hashable, CostCurve] = {}

    def curve(self, context: int, sampling: Sampling, requests: int = 1) -> CostCurve:
        """The curve of the context bucket that ``context`` tokens fall into; a new one takes seconds to measure. Powers
        of two of requests are measured, and numbers between them are interpolated."""
        return _at(requests, partial(self._measured, context, sampling))

    def _measured(self, context: int, sampling: Sampling, requests: int) -> CostCurve:
        case = CostCase(bucket(context, self.rig.target.context_limit), sampling, requests)
        if case.kind not in self._curves:
            self._curves[case.kind] = measure(self.rig, case, effort=self._effort)
        return self._curves[case.kind]

    def ready(self, context: int, sampling: Sampling) -> CostCurve:
        """A curve while a run waits for it: a known one of about this length, greedy or sampled as asked, else one that
        is measured quickly."""
        case = CostCase(bucket(context, self.rig.target.context_limit), sampling)
        near = [curve for curve in self._all() if (curve.requests, curve.sampling) == (1, case.drawing)
                and _octaves(case.context, curve) <= NEAR]
        if not near:
            self._quick[case.kind] = measure(self.rig, case, effort=QUICK)
            return self._quick[case.kind]
        return min(near, key=partial(_octaves, case.context))

    def known(self, context: int) -> CostCurve | None:
        """The measured curve of one request at the nearest context length, whatever the sampling; None without one."""
        lone = [curve for curve in self._all() if curve.requests == 1]
        return min(lone, key=partial(_octaves, context), default=None)

    def _all(self) -> Sequence[CostCurve]:
        return *self._curves.values(), *self._quick.values()


def _at(requests: int, measured: Callable[[int], CostCurve]) -> CostCurve:
    """The curve of so many requests, interpolated between those of powers of two."""
    fewer = 1 << requests.bit_length() - 1
    return measured(fewer) if fewer == requests else between(measured(fewer), measured(2 * fewer), requests)


def _octaves(context: int, curve: CostCurve) -> float:
    """How far a curve's context length is from ``context``, in powers of two."""
    return abs(log2(curve.context / max(1, context)))


def bucket(context: int, context_limit: int) -> int:
    """The power of two nearest to ``context`` in ratio, or less where the mock rounds would not fit after it."""
    length = max(SMALLEST_CONTEXT, 1 << round(log2(max(1, context))))
    return max(1, min(length, context_limit - len(ROWS) - PLAIN_ROUNDS - CHAIN - len(ROWS)))


def measure(rig: Rig, case: CostCase, rows: Sequence[int] = (), effort: Effort = FULL) -> CostCurve:
    """Measure a curve by mock rounds in shuffled order, repeated until the seconds of ``effort`` are over. A first look
    at which sizes are affordable also warms up."""
    usual = rig.defaults.get(1, ())
    drafter = rig.drafters[usual[0]] if usual else None
    sizes = _affordable(rig, drafter, case, sorted(rows or case.rows), effort)
    mocks: dict[int, list[Mock]] = defaultdict(list)
    plain: list[Mock] = []
    order, repeats, began = random.Random(0), 0, perf_counter()
    while repeats < FEWEST_REPEATS or (repeats < MOST_REPEATS and perf_counter() - began < effort.seconds):
        wanted = [size for size in sizes if size <= SMALL or repeats < FEWEST_REPEATS]
        shuffled = [order.sample(wanted, len(wanted)) for _ in range(_repeats_of(case, len(wanted)))]
        for mock in _rounds(rig, drafter, case, [size for sizes_once in shuffled for size in sizes_once]):
            mocks[mock.rows].append(mock)
        plain += _rounds(rig, None, case, [case.requests] * PLAIN_ROUNDS)
        repeats += len(shuffled)
    return _curve(rig, case, mocks, plain[PLAIN_ROUNDS:] or plain)  # the first rounds warm up


def _affordable(rig: Rig, drafter: Drafter | None, case: CostCase, sizes: Sequence[int], effort: Effort) -> list[int]:
    """The sizes up to the first that is too dear; the largest may take seconds each."""
    timed: list[Mock] = []
    with closing(_rounds(rig, drafter, case, sizes)) as mocks:
        for mock in mocks:
            timed.append(mock)
            if mock.verify_ms > max(effort.dearest_ms, effort.dearest * min(mock.verify_ms for mock in timed)):
                break
    return [mock.rows for mock in timed]


def _repeats_of(case: CostCase, sizes: int) -> int:
    """How many repeats share one prefix: one, or more where many prefixes would have to be read."""
    return 1 if case.requests == 1 else max(1, case.context // GROWTH // sizes)


def _curve(rig: Rig, case: CostCase, mocks: Mapping[int, list[Mock]], plain: list[Mock]) -> CostCurve:
    sizes = tuple(sorted(mocks))
    spread = [np.percentile([mock.verify_ms for mock in mocks[size]], (50, 10, 90)) for size in sizes]
    median, low, high = (tuple(float(value) for value in column) for column in zip(*spread, strict=True))
    target = rig.target
    return CostCurve(
        rig.name, target.hardware, target.dtype,
        case.drawing, case.context, len(mocks[sizes[0]]), sizes, median, low,
        high, tuple(float(np.median([mock.draft_ms for mock in mocks[size]])) for size in sizes),
        float(np.median([mock.overhead_ms for same_size in mocks.values() for mock in same_size])),
        float(np.median([mock.round_ms for mock in plain])), case.requests)


def _rounds(rig: Rig, drafter: Drafter | None, case: CostCase, sizes: Sequence[int]) -> Generator[Mock, None, None]:
    """Mock rounds after fresh prefixes of ordinary tokens; each commits its roots, so prefixes grow by one token."""
    with _opened(rig, drafter, case, sizes) as runs:
        for size in sizes:
            rows_each, more = divmod(size, case.requests)
            for place, run in enumerate(runs):
                run.pace.nodes = rows_each - 1 + (place < more)
            with torch.inference_mode():
                yield _mock(size, step(runs)[0].seconds)


@contextmanager
def _opened(rig: Rig, drafter: Drafter | None, case: CostCase, sizes: Sequence[int]) -> Iterator[list[MockRun]]:
    """Mock runs of all the case's requests, with their prompts read."""
    prompt = np.arange(case.context, dtype=np.int32) % rig.target.config.vocab_size
    request = Request(tuple(prompt.tolist()), budget=-(-max(sizes) // case.requests), max_tokens=len(sizes) + 1,
                      sampling=case.sampling)
    runs = [MockRun(request, rig.target.fork(), drafter.fork() if drafter else None) for _ in range(case.requests)]
    try:
        for run in runs:
            run.open()
        yield runs
    finally:
        for run in runs:
            run.close()


def _mock(rows: int, seconds: Mapping[str, float]) -> Mock:
    """The times of one mock round. Each stage ends when the host has its result; building the mock trees is left
    out."""
    around = sum(seconds[stage] for stage in ("pack", "accept", "keep", "other"))
    return Mock(rows, 1e3 * seconds["draft"], 1e3 * seconds["verify"], 1e3 * around)
