"""Measures cost curves: median times of mock rounds over trees of every size, in shuffled order.

A mock round's tree is not drafted, and only its root is committed.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import log2
from time import perf_counter

import numpy as np
import torch

from engine.budget.cost import CostCurve
from engine.decoding.acceptance import Redraw, walk
from engine.decoding.loop import DecodeRun, step
from engine.decoding.methods import Method
from engine.decoding.protocols import Drafter, Target
from engine.decoding.tree import from_nodes
from engine.models.target import TorchTarget
from engine.records import Acceptance, DraftTree, Integers, Request, Sampling, Verification

# every budget plus the root, and whole blocks of a kernel: the cost may jump after 4, 8, 16, 32 or 64 rows
ROWS = (1, 2, 3, 4, 5, 8, 9, 12, 13, 16, 17, 25, 32, 33, 49, 64, 65, 97, 129, 193, 257, 385, 513, 769, 1025)
ROUGH_ROWS = (1, 2, 4, 8, 16, 33, 65)
MIN_REPEATS, MAX_REPEATS = 4, 24
MAX_REPEATED_ROWS = 129  # later repeats measure no larger size: up to here 0.1 ms decides between budgets
PLAIN_ROUNDS = 12  # the first five after a prompt are slower
MIN_CONTEXT = 64
MAX_OCTAVES_OFF = 2.0  # between the context lengths of a curve and of the ``auto`` run that uses it
CHAIN_LENGTH = 15  # nodes of a mock tree's chain, as deep as a drafter's block; the others branch off below
ROOT_ONLY: Integers = np.zeros(1, np.int32)

StageTimes = tuple[float, float, float]  # milliseconds of a mock round: drafting, verifying, the rest


@dataclass(frozen=True)
class Effort:
    """How long measuring may take: about ``seconds``. It stops at the first pass slower than ``max_ratio`` one-row
    passes and than ``max_ms`` milliseconds. ``percentile``: of the repeats' times."""

    seconds: float
    max_ratio: float
    max_ms: float
    percentile: float = 50.0


FULL = Effort(4.0, 12.0, 250.0)  # no tree pays in a slower pass
QUICK = Effort(1.0, 4.0, 0.0)  # while a run waits for the curve
ROUGH = Effort(0.0, 12.0, 0.0, 10.0)  # before the first run, while the page opens, which delays many repeats


@dataclass(frozen=True)
class CostCase:
    """What a curve is measured for: the context length in tokens, and the sampling."""

    context: int
    sampling: Sampling

    @property
    def sampling_mode(self) -> str:
        return "sampled" if self.sampling.temperature else "greedy"

    @property
    def kind(self) -> Hashable:
        """A key that cases of equal cost share: a distribution takes time, and so does cutting it, but the temperature
        makes no difference."""
        sampling = self.sampling
        work = (sampling.top_k > 0, sampling.top_p < 1, sampling.min_p > 0) if sampling.temperature > 0 else ()
        return self.context, work, sampling.adjusts


class CostCurves:
    """A rig's cost curves with one drafter, each measured when first needed. Needs the rig exclusively."""

    def __init__(self, rig_name: str, target: TorchTarget, drafter: Drafter | None) -> None:
        self._rig_name, self._target, self._drafter = rig_name, target, drafter
        self._curves: dict[tuple[Hashable, Effort], CostCurve] = {}  # by the kind of case
        self._rough: CostCurve | None = None  # of few sizes: good enough to predict speeds, not to choose budgets

    def curve(self, context: int, sampling: Sampling, effort: Effort = FULL,
              interrupt: Callable[[], None] | None = None, *, again: bool = False) -> CostCurve:
        """Return the curve for the bucket of ``context`` tokens; if ``QUICK`` is enough, one near it. It is measured if
        there is none, or ``again``. ``interrupt`` is polled; it raises to stop."""
        case = CostCase(context_bucket(context, self._target.context_limit), sampling)
        curve = self._curves.get((case.kind, effort))
        if effort == QUICK and (near := self.nearest(case.context, case.sampling_mode)):
            curve = near if _octaves(case.context, near) <= MAX_OCTAVES_OFF else curve
        if curve and not again:
            return curve
        curve = self.measure(case, effort, interrupt=interrupt)
        self._curves = {kind: other for kind, other in self._curves.items() if other is not curve}
        self._curves[case.kind, effort] = curve
        return curve

    def measure_roughly(self, context: int, interrupt: Callable[[], None]) -> None:
        """Measure a curve of few sizes, which ``best_known`` returns until there is another one."""
        case = CostCase(context_bucket(context, self._target.context_limit), Sampling())
        self._rough = self.measure(case, ROUGH, ROUGH_ROWS, interrupt)

    def best_known(self, context: int) -> CostCurve | None:
        """Return the curve to predict speeds from; None if none was measured."""
        curve = self.nearest(context)
        return self._rough if self._rough and (curve is None or curve.unusable_reason) else curve

    def nearest(self, context: int, *sampling_modes: str) -> CostCurve | None:
        """Return the measured curve nearest in context length, of these sampling modes or of any; None without one."""
        curves = [curve for curve in self._curves.values() if not sampling_modes or curve.sampling in sampling_modes]
        return min(curves, key=lambda curve: _octaves(context, curve), default=None)

    def measure(self, case: CostCase, effort: Effort = FULL, rows: Sequence[int] = (),
                interrupt: Callable[[], None] | None = None) -> CostCurve:
        """Measure a curve by mock rounds in shuffled order, repeated for the seconds of ``effort``."""
        target = self._target.fork(interrupt)
        sizes = self._affordable(target, case, sorted(rows or ROWS), effort)
        times: dict[int, list[StageTimes]] = defaultdict(list)
        plain: list[StageTimes] = []
        order, repeats, began = random.Random(0), 0, perf_counter()
        while repeats < MIN_REPEATS or (repeats < MAX_REPEATS and perf_counter() - began < effort.seconds):
            due = [size for size in sizes if size <= MAX_REPEATED_ROWS or repeats < MIN_REPEATS]
            for size, spent in mock_rounds(target, self._drafter, case, order.sample(due, len(due))):
                times[size].append(spent)
            plain += [spent for _, spent in mock_rounds(target, None, case, [1] * PLAIN_ROUNDS)]
            repeats += 1
        settled = plain[PLAIN_ROUNDS:] or plain  # the first rounds warm up
        return self._curve(case, times, settled, effort.percentile)

    def _affordable(self, target: TorchTarget, case: CostCase, sizes: Sequence[int], effort: Effort) -> list[int]:
        """Return the sizes up to the first that is too slow, and warm up; the largest may take seconds each."""
        verify_ms: list[float] = []
        with closing(mock_rounds(target, self._drafter, case, sizes)) as rounds:
            for size, (_, verify, _) in rounds:
                verify_ms.append(verify)
                affordable_ms = max(effort.max_ms, effort.max_ratio * min(verify_ms))
                if verify > affordable_ms:  # or only delayed, so it is timed once more
                    [(_, (_, second, _))] = mock_rounds(target, self._drafter, case, [size])
                    if second > affordable_ms:
                        break
        return list(sizes[:len(verify_ms)])

    def _curve(self, case: CostCase, times: Mapping[int, list[StageTimes]], plain: list[StageTimes],
               percentile: float) -> CostCurve:
        sizes = tuple(sorted(times))
        tables = [np.asarray(times[size]) for size in sizes]  # (repeats, stages) each
        verify, low, high = np.asarray([
            np.percentile(table[:, 1], (percentile, 10, 90)) for table in tables]).T.tolist()
        draft = tuple(float(np.percentile(table[:, 0], percentile)) for table in tables)
        return CostCurve(
            self._rig_name, self._target.hardware, self._target.dtype, case.sampling_mode, case.context, len(tables[0]),
            sizes, tuple(verify), tuple(low), tuple(high), draft, float(np.median(np.concatenate(tables)[:, 2])),
            float(np.percentile(np.asarray(plain).sum(1), percentile)))


def _octaves(context: int, curve: CostCurve) -> float:
    """Return how far a curve's context length is from ``context``, in powers of two."""
    return abs(log2(curve.context / max(1, context)))


def context_bucket(context: int, context_limit: int) -> int:
    """Return the power of two nearest to ``context`` in ratio, or less if the mock rounds would not fit after it."""
    length = max(MIN_CONTEXT, 1 << round(log2(max(1, context))))
    return max(1, min(length, context_limit - len(ROWS) - PLAIN_ROUNDS - CHAIN_LENGTH - len(ROWS)))


def mock_rounds(target: TorchTarget, drafter: Drafter | None, case: CostCase, sizes: Sequence[int]
                ) -> Generator[tuple[int, StageTimes], None, None]:
    """Yield each size with the times of one mock round, after a fresh prefix, which grows by one token a round. A stage
    ends when the host has its result; building trees is not timed."""
    prompt = np.arange(case.context, dtype=np.int32) % target.config.vocab_size
    request = Request(tuple(prompt.tolist()), budget=max(sizes), max_tokens=len(sizes) + 1, sampling=case.sampling)
    with closing(MockRun(request, target.fork(), drafter.fork() if drafter else None)) as run:
        run.open()
        for size in sizes:
            run.nodes = size - 1
            with torch.inference_mode():
                seconds = step([run])[0].seconds
            rest = sum(seconds[stage] for stage in ("pack", "accept", "keep", "other"))
            yield size, (1e3 * seconds["draft"], 1e3 * seconds["verify"], 1e3 * rest)


class MockRun(DecodeRun):
    """A request whose rounds verify mock trees of ``nodes`` nodes and commit only the root."""

    nodes = 0

    def __init__(self, request: Request, target: Target, drafter: Drafter | None) -> None:
        drafters = (drafter,) if drafter else ()
        super().__init__(request, target, drafters, method=Method(
            len(drafters), lambda _, root, nodes: mock_tree(root, nodes + 1), accept=_root_kept))

    def plan_round(self) -> None:
        self.drafting, self.budget = self.drafters, self.nodes


def mock_tree(root: int, rows: int) -> DraftTree:
    """Return a tree of ``rows`` rows as deep as a drafter's block: a chain, then four children per node."""
    nodes = np.arange(1, rows, dtype=np.int32)
    parents = np.where(nodes <= CHAIN_LENGTH, nodes - 1, (nodes - CHAIN_LENGTH - 1) // 4).astype(np.int32)
    return from_nodes(root, np.full(rows - 1, root, np.int32), parents, np.zeros(rows - 1, np.float32))


def _root_kept(tree: DraftTree, verification: Verification, redraw: Redraw,
               random: np.random.Generator) -> Acceptance:
    """Walk as a real round would, for its time, then keep only the root, which is the next tree's root again."""
    return replace(walk(tree, verification, redraw, random), keep=ROOT_ONLY, bonus=int(tree.tokens[0]))
