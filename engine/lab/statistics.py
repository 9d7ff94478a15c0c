"""Readings of rounds, and statistics over them: histogram, acceptance by depth and rank, calibration, and the interval
of a median. They need only readings, so they serve a recorded trace (``reading_of``) as well as a sweep.

Acceptance is counted by prefix: a disjoint ``merged`` tree may hold one twice, and here it counts once, with the
highest probability that a drafter gives it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from math import comb, isnan, sqrt
from statistics import fmean, median, stdev
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from engine.lab.settings import AcceptanceCounts, Reading
from engine.records import STAGES, DraftTree, Integers, Lattice, Round
from engine.trace import Trace

RANKS = 16  # the last also counts all worse ranks


def expected_length(tree: DraftTree) -> float:
    """1 + Σ q over the distinct drafted prefixes: the length that the drafter expects (paper 002, section 4.2)."""
    beliefs = np.exp(tree.logprobs[1:], dtype=np.float64)
    siblings = tree.parents[1:].astype(np.int64) << 32 | tree.tokens[1:]
    if len(np.unique(siblings)) == len(siblings):
        return 1.0 + float(beliefs.sum())
    best: dict[int, float] = {}
    for prefix, belief in zip(_prefixes(tree), beliefs.tolist(), strict=True):
        best[prefix] = max(best.get(prefix, 0.0), belief)
    return 1.0 + sum(best.values())


def _prefixes(tree: DraftTree) -> list[int]:
    """For each drafted node, the first node that has the same tokens from the root on."""
    first = [0]
    places: dict[tuple[int, int], int] = {}
    for node, (token, parent) in enumerate(zip(tree.tokens[1:].tolist(), tree.parents[1:].tolist(), strict=True), 1):
        first.append(places.setdefault((first[parent], token), node))
    return first[1:]


def ended_by_text(round_: Round) -> bool:
    """Whether the end of the text (a stop token, max_tokens) ended the walk before the tree did. The bonus token is
    then a drafted child of the last kept row."""
    *_, last = standings(round_)
    return bool((round_.tree.tokens[last] == round_.acceptance.bonus).any())


def standings(round_: Round) -> Iterator[NDArray[np.intp]]:
    """For each kept row, root first, the drafted nodes (n,) that continue its prefix, copies of the prefix included."""
    tree = round_.tree
    here: NDArray[np.intp] = np.zeros(1, np.intp)
    for token in (*round_.committed[1:].tolist(), None):
        below = np.flatnonzero(np.isin(tree.parents[1:], here)) + 1
        yield below
        here = below[tree.tokens[below] == token]


@dataclass
class AcceptanceTally:
    """Adds up ``AcceptanceCounts`` round by round."""

    reached: list[int] = field(default_factory=list)
    proposed: list[list[int]] = field(default_factory=list)
    accepted: list[list[int]] = field(default_factory=list)

    def add(self, round_: Round) -> None:
        """Count a round, unless the end of the text ended its walk."""
        rows: list[int | None] = [0] * len(round_.drafts)
        deepest = max((draft.depth for draft in round_.drafts), default=0)
        path = round_.tree.tokens[round_.acceptance.keep].tolist()
        for depth, below in enumerate(standings(round_)):
            if depth:
                rows = [step(draft, row, depth - 1, path[depth])
                        for draft, row in zip(round_.drafts, rows, strict=True)]
            if depth >= deepest:
                return
            self._count(depth, ranks(round_, rows, depth, below), path[depth + 1] if depth + 1 < len(path) else None)

    def _count(self, depth: int, accepted: dict[int, int], taken: int | None) -> None:
        while len(self.reached) <= depth:
            self.reached.append(0)
            self.proposed.append([0] * RANKS)
            self.accepted.append([0] * RANKS)
        self.reached[depth] += 1
        for rank in accepted.values():
            self.proposed[depth][rank] += 1
        if taken is not None:
            self.accepted[depth][accepted[taken]] += 1

    def counts(self) -> AcceptanceCounts:
        """The counts as a record."""
        return AcceptanceCounts(
            tuple(self.reached), tuple(map(tuple, self.proposed)), tuple(map(tuple, self.accepted)))


def ranks(tree: Round, rows: list[int | None], depth: int, nodes: NDArray[np.intp]) -> dict[int, int]:
    """The best rank of each of these nodes' tokens among the drafters that propose it, ``RANKS`` − 1 at most."""
    best: dict[int, int] = {}
    for token, drafters in zip(tree.tree.tokens[nodes].tolist(), tree.tree.drafters[nodes].tolist(), strict=True):
        places = [place(draft, row, depth, token) for drafter, (draft, row) in enumerate(
            zip(tree.drafts, rows, strict=True)) if drafters >> drafter & 1]
        known = [rank for rank in places if rank is not None]
        best[token] = min([best.get(token, RANKS - 1), *known])
    return best


def place(draft: Lattice, row: int | None, depth: int, token: int) -> int | None:
    """The rank of a token in a row of a drafter's lattice, or None where the row does not hold it."""
    if row is None or depth >= draft.depth:
        return None
    held: Integers = np.flatnonzero(draft.tokens[depth, row] == token).astype(np.int32)
    return int(held[0]) if len(held) else None


def step(draft: Lattice, row: int | None, depth: int, token: int) -> int | None:
    """The row at the next depth that a token leads to; with one row per depth, every path leads there."""
    if draft.tokens.shape[1] == 1:
        return 0
    rank = place(draft, row, depth, token)
    return None if rank is None or row is None else int(draft.follow[depth, row, rank])


def pooled(counts: list[AcceptanceCounts]) -> AcceptanceCounts:
    """The sum of several runs' counts."""
    return reduce(_plus, counts, AcceptanceCounts())


def _plus(one: AcceptanceCounts, other: AcceptanceCounts) -> AcceptanceCounts:
    short, long = sorted((one, other), key=lambda counts: len(counts.reached))
    size, missing = len(long.reached), len(long.reached) - len(short.reached)
    blank = ((0,) * RANKS,) * missing
    reached = np.asarray(long.reached, int) + np.asarray((*short.reached, *(0,) * missing), int)
    tables = [np.asarray(ours, int).reshape(size, RANKS) + np.asarray((*theirs, *blank), int).reshape(size, RANKS)
              for ours, theirs in ((long.proposed, short.proposed), (long.accepted, short.accepted))]
    return AcceptanceCounts(tuple(reached.tolist()), *(tuple(map(tuple, table.tolist())) for table in tables))


def read(rounds: Iterable[Round]) -> Reading:
    """Run to the end, then make the reading.

    Nothing is read in between: a pause would let a device finish, off the clock, work that a round has left in flight.
    """
    kept: list[Round] = []
    step_seconds: list[float] = []
    began = perf_counter()
    for round_ in rounds:
        now = perf_counter()
        step_seconds.append(now - began)
        kept.append(round_)
        began = perf_counter()
    return reading(kept, step_seconds)


def reading_of(trace: Trace) -> Reading:
    """The reading of a recorded run, whose entries carry the engine time since its start."""
    elapsed = [0.0, *(entry.elapsed_seconds for entry in trace.entries)]
    return reading([entry.round for entry in trace.entries], [after - before for before, after in pairwise(elapsed)])


def reading(rounds: Sequence[Round], step_seconds: Sequence[float], committed: Sequence[int] = ()) -> Reading:
    """The reading of a run's rounds. ``step_seconds`` (rounds,): the time of each step of the loop; the first includes
    the prefill. ``committed`` (rounds,): see ``Reading``."""
    round_seconds = [sum(rounds[0].seconds.values()), *step_seconds[1:]] if rounds else []
    cut = bool(rounds) and ended_by_text(rounds[-1])
    tally = AcceptanceTally()
    for counted in rounds[:-1] if cut else rounds:
        tally.add(counted)
    return Reading(
        token_ids=tuple(token for round_ in rounds for token in round_.committed.tolist()),
        lengths=tuple(len(round_.acceptance.keep) for round_ in rounds),
        rows=tuple(len(round_.tree) for round_ in rounds),
        expected=tuple(expected_length(round_.tree) for round_ in rounds),
        round_seconds=tuple(round_seconds),
        prefill_seconds=max(0.0, step_seconds[0] - round_seconds[0]) if round_seconds else 0.0,
        stage_seconds={stage: sum(round_.seconds.get(stage, 0.0) for round_ in rounds) for stage in STAGES},
        gaps=tuple(gap for round_ in rounds for gap in round_.verification.gap[round_.acceptance.keep].tolist()),
        acceptance=tally.counts(),
        bonus=rounds[-1].acceptance.bonus if rounds else -1,
        cut=cut,
        committed=tuple(committed))


CONFIDENCE = 0.95
TWO_SIDED = 1.96  # standard errors that hold 95 % of a normal distribution
RESAMPLES, SEED = 2000, 0  # of a bootstrap
MOST_RESAMPLED = 500


@dataclass(frozen=True)
class Measured:
    """A share or a mean over ``count`` rows or rounds, and the interval that holds the true one at 95 %."""

    value: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def share_of(hits: int, count: int) -> Measured:
    """A share with Wilson's interval, which is right for few hits too (count ≥ 1)."""
    value, square = hits / count, TWO_SIDED**2
    middle, half = value + square / (2 * count), TWO_SIDED * sqrt(
        value * (1 - value) / count + square / (4 * count**2))
    whole = 1 + square / count
    return Measured(value, max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole), count)


def mean_of(values: Sequence[float]) -> Measured:
    """A mean over rounds, with its interval by resampling rounds; the same every time (one value or more). From
    ``MOST_RESAMPLED`` values on the mean is normal enough for its standard error."""
    if len(values) > MOST_RESAMPLED:
        middle, half = fmean(values), TWO_SIDED * stdev(values) / sqrt(len(values))
        return Measured(middle, middle - half, middle + half, len(values))
    drawn = np.random.default_rng(SEED).integers(0, len(values), (RESAMPLES, len(values)))
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.asarray(values, np.float64)[drawn].mean(1), [outside, 1 - outside])
    return Measured(fmean(values), float(low), float(high), len(values))


@dataclass(frozen=True)
class Estimate:
    """A median over prompts. ``low`` and ``high`` bound the true median at 95 % confidence or more, and are None with
    too few prompts; ``least`` and ``most`` are the extremes that were seen."""

    median: float
    low: float | None
    high: float | None
    least: float
    most: float
    prompts: int


def estimate(values: Sequence[float]) -> Estimate:
    """The median of one value per prompt, with its interval between two order statistics.

    The interval of ranks k and n + 1 − k holds the true median with probability 1 − 2 P(Bin(n, ½) < k), whatever the
    distribution: exact, and the same every time. A bootstrap of a median of few prompts promises 95 % and holds
    less, and would give two prompts an interval; this one needs six.
    """
    ordered = sorted(values)
    rank = interval_rank(len(ordered))
    low, high = (ordered[rank - 1], ordered[-rank]) if rank else (None, None)
    return Estimate(median(ordered), low, high, ordered[0], ordered[-1], len(ordered))


def interval_rank(count: int) -> int:
    """The largest rank k whose interval still reaches the confidence; 0 where none does (fewer than 6 values)."""
    outside, rank = 0.0, 0
    while rank < count // 2:
        outside += 2 * comb(count, rank) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        rank += 1
    return rank


def histogram(readings: Sequence[Reading]) -> tuple[int, ...]:
    """How many rounds committed 1, 2, 3 … tokens, the root included (paper 002, Figure 4).

    All rounds, as in τ: its mean is the τ of these readings together.
    """
    counts = Counter(length for reading in readings for length in reading.lengths)
    return tuple(counts[length] for length in range(1, max(counts, default=0) + 1))


@dataclass(frozen=True)
class DepthRank:
    """How many proposals of this depth (1 is right after the root) and rank (from 0) were accepted where walks reached
    them.

    ``proposed`` counts the trees that held one, ``accepted`` those whose walk went on to it, ``reached`` the rounds
    whose walk stood right above this depth, whether or not the tree held anything there.
    """

    depth: int
    rank: int
    reached: int
    proposed: int
    accepted: int

    @property
    def rate(self) -> float:
        """Accepted over proposed."""
        return self.accepted / self.proposed


def acceptance(readings: Sequence[Reading]) -> tuple[DepthRank, ...]:
    """Every depth and rank that any tree held where a walk reached it, shallow depths first."""
    counts = pooled([reading.acceptance for reading in readings])
    return tuple(
        DepthRank(depth + 1, rank, counts.reached[depth], proposed, counts.accepted[depth][rank])
        for depth, row in enumerate(counts.proposed) for rank, proposed in enumerate(row) if proposed)


@dataclass(frozen=True)
class CalibrationBin:
    """Rounds of similar expected length: the mean expected and realised lengths, root included, and how many rounds.

    ``low`` and ``high`` bound the realised mean at 95 % (normal; rounds of one text are not quite independent), and
    are None for a single round.
    """

    expected: float
    realised: float
    low: float | None
    high: float | None
    rounds: int


@dataclass(frozen=True)
class Calibration:
    """Whether the drafter is over- or under-confident. ``bins`` are compared with the diagonal; ``excess`` is the mean
    expected over the mean realised number of accepted draft tokens: above 1, the drafter is over-confident. It is None
    where nothing was accepted."""

    bins: tuple[CalibrationBin, ...]
    expected: float
    realised: float
    excess: float | None


def calibration(readings: Sequence[Reading], most_bins: int = 10) -> Calibration | None:
    """Expected length 1 + Σ q against the realised one, rounds in bins of equal count by expectation.

    Rounds that drafted nothing and those that the end of the text cut short are left out; None if none is left.
    """
    pairs = sorted(pair for reading in readings for pair in whole_rounds(reading))
    if not pairs:
        return None
    bins = min(most_bins, len(pairs))
    edges = [len(pairs) * place // bins for place in range(bins + 1)]
    expected, realised = (fmean(pair[side] for pair in pairs) for side in (0, 1))
    return Calibration(
        tuple(_bin(pairs[begin:end]) for begin, end in zip(edges, edges[1:], strict=False)), expected, realised,
        (expected - 1) / (realised - 1) if realised > 1 else None)


def whole_rounds(reading: Reading) -> list[tuple[float, int]]:
    """The expected and realised lengths of the rounds that drafted, that were not cut by the end of the text, and whose
    drafter's probabilities were recorded."""
    last = len(reading.lengths) - reading.cut
    rounds = zip(reading.expected[:last], reading.lengths[:last], reading.rows[:last], strict=True)
    return [(expected, length) for expected, length, rows in rounds if rows > 1 and not isnan(expected)]


def _bin(pairs: Sequence[tuple[float, int]]) -> CalibrationBin:
    lengths = [length for _, length in pairs]
    realised = fmean(lengths)
    error = TWO_SIDED * stdev(lengths) / sqrt(len(lengths)) if len(lengths) > 1 else None
    low, high = (None, None) if error is None else (realised - error, realised + error)
    return CalibrationBin(fmean(expected for expected, _ in pairs), realised, low, high, len(pairs))
