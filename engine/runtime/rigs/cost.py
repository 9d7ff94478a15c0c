"""The cost curve, measured: mock rounds of the rig at hand over trees of every size, interleaved, medians."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import log2
from time import perf_counter

import numpy as np

from engine.acceptance.walk import walk
from engine.lab.cost import CostCurve
from engine.plan import Drafter
from engine.records import DraftTree, Integers, Sampling
from engine.runtime.rigs.mock import CHAIN, mock_tree
from engine.runtime.rigs.rigs import Rig
from engine.tree import pack

# budgets and the root, and whole tiles of a matrix unit: a row more than 16, 32 or 64 is a step
ROWS = (1, 2, 3, 5, 9, 13, 16, 17, 25, 32, 33, 49, 64, 65, 97, 129, 193, 257, 385, 513, 769, 1025)
FEWEST_REPEATS, MOST_REPEATS = 3, 25
SMALL = 129  # rows up to which the later repeats go: there a choice turns on a tenth of a millisecond
MOST_SECONDS = 4.0
PLAIN_ROUNDS = 6
SMALLEST_CONTEXT = 64


@dataclass(frozen=True)
class Mock:
    """One timed mock round of ``rows`` rows, in milliseconds."""

    rows: int
    draft_ms: float
    verify_ms: float
    overhead_ms: float

    @property
    def round_ms(self) -> float:
        """Drafting, verifying and what is around them."""
        return self.draft_ms + self.verify_ms + self.overhead_ms


class CostBook:
    """A rig's cost curves: each is measured when it is first asked for, and kept. Needs the target to itself."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._curves: dict[tuple[int, Sampling], CostCurve] = {}

    def curve(self, context: int, sampling: Sampling) -> CostCurve:
        """The curve of the bucket that a prefix of ``context`` tokens falls into; seconds when it is a new one."""
        length, kind = bucket(context, self._rig.target.context_limit), replace(sampling, seed=0)
        if (length, kind) not in self._curves:
            self._curves[length, kind] = measure(self._rig, length, kind)
        return self._curves[length, kind]

    def known(self, context: int) -> CostCurve | None:
        """The measured curve of the nearest length, whatever the sampling; None where none was measured."""
        return min(self._curves.values(), key=lambda curve: abs(log2(curve.context / max(1, context))), default=None)


def bucket(context: int, context_limit: int) -> int:
    """The power of two nearest to ``context`` in ratio, as far as the mock rounds fit after it."""
    length = max(SMALLEST_CONTEXT, 1 << round(log2(max(1, context))))
    return max(1, min(length, context_limit - len(ROWS) - PLAIN_ROUNDS - CHAIN - len(ROWS)))


def measure(rig: Rig, context: int, sampling: Sampling, rows: tuple[int, ...] = ROWS) -> CostCurve:
    """Mock rounds in shuffled order, repeated until ``MOST_SECONDS`` are over; the first repeat only warms up."""
    usual = rig.defaults.get(1, ())
    drafter = rig.drafters[usual[0]] if usual else None
    mocks: dict[int, list[Mock]] = defaultdict(list)
    plain: list[Mock] = []
    order, repeats, began = random.Random(0), 0, perf_counter()
    while repeats < FEWEST_REPEATS or (repeats < MOST_REPEATS and perf_counter() - began < MOST_SECONDS):
        wanted = [size for size in rows if size <= SMALL or repeats < FEWEST_REPEATS]
        for mock in _rounds(rig, drafter, (context, sampling), order.sample(wanted, len(wanted))):
            mocks[mock.rows].append(mock)
        plain += _rounds(rig, None, (context, sampling), [1] * PLAIN_ROUNDS)
        repeats += 1
    timed = {size: found[1:] for size, found in mocks.items()}
    return _curve(rig, (context, sampling), timed, plain[PLAIN_ROUNDS:])


def _curve(rig: Rig, at: tuple[int, Sampling], mocks: Mapping[int, list[Mock]], plain: list[Mock]) -> CostCurve:
    context, sampling = at
    sizes = tuple(sorted(mocks))
    spread = [np.percentile([mock.verify_ms for mock in mocks[size]], (50, 10, 90)) for size in sizes]
    median, low, high = (tuple(float(value) for value in column) for column in zip(*spread, strict=True))
    target = rig.target
    return CostCurve(
        rig.name, target.hardware, target.dtype,
        "sampled" if sampling.temperature else "greedy", context, len(mocks[sizes[0]]), sizes, median, low, high,
        tuple(float(np.median([mock.draft_ms for mock in mocks[size]])) for size in sizes),
        float(np.median([mock.overhead_ms for found in mocks.values() for mock in found])),
        float(np.median([mock.round_ms for mock in plain])))


def _rounds(rig: Rig, drafter: Drafter | None, at: tuple[int, Sampling], sizes: list[int]) -> Iterator[Mock]:
    """Mock rounds after a fresh prefix of ordinary tokens; each keeps its root, so the prefix grows by one."""
    context, sampling = at
    prompt = np.arange(context, dtype=np.int32) % rig.target.config.vocab_size
    try:
        root, features = rig.target.prefill(prompt.tolist(), len(sizes) + max(sizes), sampling)
        if drafter:
            drafter.begin(context + len(sizes) + 1)
            drafter.observe(prompt, features)
        for number, size in enumerate(sizes):
            yield _mock(rig, drafter, mock_tree(root, size), context + number)
    finally:
        rig.target.release()
        if drafter:
            drafter.release()


def _mock(rig: Rig, drafter: Drafter | None, tree: DraftTree, start: int) -> Mock:
    """Timed like a round of ``decode``: every step ends where the host has its result."""
    marks = [perf_counter()]
    if drafter:
        drafter.draft(int(tree.tokens[0]), max(1, len(tree) - 1))
    marks.append(perf_counter())
    packed = pack(tree, start)
    marks.append(perf_counter())
    verification = rig.target.verify(packed)
    marks.append(perf_counter())
    walk(tree, verification, rig.target, np.random.default_rng(0))
    kept: Integers = np.zeros(1, np.int32)
    features = rig.target.commit(kept)
    marks.append(perf_counter())
    if drafter:
        drafter.observe(tree.tokens[kept], features)
    marks.append(perf_counter())
    draft, packing, verify, keep, observe = (1e3 * float(lap) for lap in np.diff(marks))
    return Mock(len(tree), draft + observe, verify, packing + keep)
