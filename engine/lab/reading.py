"""Readings: the figures of one run, measured alone, measured concurrently, or recorded.

Acceptance is counted by prefix. A ``merged`` tree may hold a prefix twice; it counts once, with the highest probability
that a drafter gives it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice, pairwise
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from engine.decoding.loop import DecodeRun, step
from engine.errors import RequestError
from engine.lab.repetition import first_copy
from engine.records import STAGES, DraftTree, Lattice, Round
from engine.trace import Trace, committed_ids, mean_length

COUNTED_RANKS = 16  # the last one also counts all worse ranks

Counts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class AcceptanceCounts:
    """Accepted tokens by depth after the root (index d − 1), and by rank in the drafter's row (up to
    ``COUNTED_RANKS``). A token that several drafters propose counts at its best rank."""

    reached: tuple[int, ...] = ()  # rounds that kept depth d − 1 and had a proposal for depth d
    proposed: Counts = ()  # distinct tokens of each rank in their trees at depth d
    accepted: Counts = ()  # how many of these were kept


@dataclass(frozen=True)
class WrittenText:
    """The tokens of a run, and how close the target's choices were."""

    token_ids: tuple[int, ...]
    gaps: tuple[float, ...]  # nats between the target's two best tokens after each token
    bonus: int  # the token that would follow; −1 without a round


def text_of(rounds: Sequence[Round]) -> WrittenText:
    """Return the text of these rounds."""
    return WrittenText(
        tuple(committed_ids(rounds)),
        tuple(gap for round_ in rounds for gap in round_.verification.gap[round_.acceptance.keep].tolist()),
        rounds[-1].acceptance.bonus if rounds else -1)


@dataclass(frozen=True)
class Reading(WrittenText):
    """One measured run. ``lengths``, ``rows``, ``expected``, ``round_seconds`` and ``committed`` are per round."""

    lengths: tuple[int, ...]  # tokens committed, root included
    rows: tuple[int, ...]  # verified
    expected: tuple[float, ...]  # length: 1 + Σ q over the tree's distinct drafted prefixes
    round_seconds: tuple[float, ...]  # engine time, without the prefill
    prefill_seconds: float
    stage_seconds: Mapping[str, float]  # by ``records.STAGES``
    acceptance: AcceptanceCounts
    cut: bool  # the end of the text cut the last round short, so its length says nothing of the drafter
    committed: tuple[int, ...] = ()  # tokens that all concurrent requests added, this one included; empty if alone

    @property
    def tokens(self) -> int:
        return len(self.token_ids)

    @cached_property
    def repeats(self) -> bool:
        """Whether the text falls into a loop, judged by its token ids."""
        return first_copy(self.token_ids) is not None

    @property
    def rounds(self) -> int:
        return len(self.lengths)

    @property
    def seconds(self) -> float:
        return sum(self.round_seconds)

    @property
    def round_ms(self) -> float:
        return 1e3 * self.seconds / self.rounds if self.lengths else 0.0

    @property
    def tau(self) -> float:
        return mean_length(self.tokens, self.rounds)

    @property
    def tokens_per_second(self) -> float:
        """This request's tokens per second of engine time, without the prefill; 0 without a round."""
        return self.tokens / self.seconds if self.lengths else 0.0

    @property
    def total_tokens_per_second(self) -> float:
        """The tokens per second of all concurrent requests, over the same rounds."""
        return sum(self.committed or self.lengths) / self.seconds if self.lengths else 0.0


def read(rounds: Iterable[Round]) -> Reading:
    """Time each round; evaluate them at the end, because a pause between rounds would give the device time."""
    kept: list[Round] = []
    step_seconds: list[float] = []
    began = perf_counter()
    for round_ in rounds:
        now = perf_counter()
        step_seconds.append(now - began)
        kept.append(round_)
        began = perf_counter()
    return reading_from(kept, step_seconds)


def read_concurrent(measured: DecodeRun, others: Sequence[Callable[[], DecodeRun]], concurrency: int) -> Reading:
    """Answer a request to its end, with ``concurrency`` requests in each of its rounds.

    ``others`` make the concurrent runs: when one ends, the next begins, and its prompt is read between two
    rounds. Only rounds are timed. RequestError if too few requests can be served.
    """
    runs, waiting = [measured], cycle(others)
    kept: list[Round] = []
    step_seconds, committed = [], []
    try:
        began = perf_counter()
        measured.open()
        prefill_seconds = perf_counter() - began
        while measured.unfinished:
            while len(runs) < concurrency:
                runs.append(_open_next(islice(waiting, len(others))))
            began = perf_counter()
            rounds = step(runs)
            step_seconds.append(perf_counter() - began)
            kept.append(rounds[0])
            committed.append(sum(len(batch_round.acceptance.keep) for batch_round in rounds))
            runs = [run for run in runs if run.unfinished]
    finally:
        for run in (measured, *runs):
            run.close()
    if step_seconds:
        step_seconds[0] += prefill_seconds
    return reading_from(kept, step_seconds, committed)


def _open_next(candidates: Iterable[Callable[[], DecodeRun]]) -> DecodeRun:
    """Open the first run that can be served and does not end before its first round; RequestError if none can."""
    reason = "there is none."
    for prepare in candidates:
        try:
            run = prepare()
            run.open()
        except RequestError as error:
            reason = str(error)
            continue
        if run.unfinished:
            return run
        reason = "it ends before its first round."
    raise RequestError(f"No other prompt of the set can run beside this one: {reason}")


def reading_of(trace: Trace) -> Reading:
    """Return the reading of a recorded run, whose entries carry the engine time since its start."""
    elapsed = [0.0, *(entry.elapsed_seconds for entry in trace.entries)]
    rounds = trace.rounds
    return reading_from(rounds, [after - before for before, after in pairwise(elapsed)])


def reading_from(rounds: Sequence[Round], step_seconds: Sequence[float], committed: Sequence[int] = ()) -> Reading:
    """Return the reading of these rounds; ``step_seconds`` is the time of each step, the first with the prefill."""
    round_seconds = [sum(rounds[0].seconds.values()), *step_seconds[1:]] if rounds else []
    cut = bool(rounds) and ended_by_text(rounds[-1])
    return Reading(
        **vars(text_of(rounds)),
        lengths=tuple(len(round_.acceptance.keep) for round_ in rounds),
        rows=tuple(len(round_.tree) for round_ in rounds),
        expected=tuple(expected_length(round_.tree) for round_ in rounds),
        round_seconds=tuple(round_seconds),
        prefill_seconds=max(0.0, step_seconds[0] - round_seconds[0]) if round_seconds else 0.0,
        stage_seconds={stage: sum(round_.seconds.get(stage, 0.0) for round_ in rounds) for stage in STAGES},
        acceptance=count_acceptance(rounds[:-1] if cut else rounds),
        cut=cut,
        committed=tuple(committed))


def expected_length(tree: DraftTree) -> float:
    """Return 1 + Σ q over the distinct drafted prefixes: the length that the drafter expects (paper 002, section
    4.2)."""
    beliefs = np.exp(tree.logprobs[1:], dtype=np.float64)
    siblings = tree.parents[1:].astype(np.int64) << 32 | tree.tokens[1:]
    if len(np.unique(siblings)) == len(siblings):
        return 1.0 + float(beliefs.sum())
    prefixes = [0]  # for each node, the first node that has the same tokens from the root on
    first: dict[tuple[int, int], int] = {}
    best: dict[int, float] = {}
    nodes = zip(tree.tokens[1:].tolist(), tree.parents[1:].tolist(), beliefs.tolist(), strict=True)
    for node, (token, parent, belief) in enumerate(nodes, 1):
        prefix = first.setdefault((prefixes[parent], token), node)
        prefixes.append(prefix)
        best[prefix] = max(best.get(prefix, 0.0), belief)
    return 1.0 + sum(best.values())


def ended_by_text(round_: Round) -> bool:
    """Return whether the end of the text cut the walk short: the bonus token is then a drafted child."""
    *_, last = continuations(round_)
    return bool((round_.tree.tokens[last] == round_.acceptance.bonus).any())


def continuations(round_: Round) -> Iterator[NDArray[np.intp]]:
    """Yield, for each kept row, root first, the drafted nodes (n,) that continue its prefix or a copy of it."""
    tree = round_.tree
    current: NDArray[np.intp] = np.zeros(1, np.intp)
    for token in (*round_.committed[1:].tolist(), None):
        below = np.flatnonzero(np.isin(tree.parents[1:], current)) + 1
        yield below
        current = below[tree.tokens[below] == token]


def count_acceptance(rounds: Iterable[Round]) -> AcceptanceCounts:
    """Count proposed and accepted tokens; leave out a round that the end of the text cut short."""
    reached, proposed, accepted = Counter[int](), Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for round_ in rounds:
        path, tree = round_.committed[1:].tolist(), round_.tree
        by_drafter = [list(rows_along(draft, path)) for draft in round_.drafts]
        deepest = max((draft.depth for draft in round_.drafts), default=0)
        steps = zip(continuations(round_), [*path, None], strict=True)
        for depth, (nodes, next_token) in enumerate(islice(steps, deepest)):
            ranks: dict[int, int] = {}  # of the tokens that the tree holds here, each the best among its drafters
            for token, drafters in zip(tree.tokens[nodes].tolist(), tree.drafters[nodes].tolist(), strict=True):
                rows = [rows[depth] for drafter, rows in enumerate(by_drafter)
                        if drafters >> drafter & 1 and depth < len(rows)]
                found = [row.index(token) for row in rows if token in row]
                ranks[token] = min([ranks.get(token, COUNTED_RANKS - 1), *found])
            reached[depth] += 1
            proposed.update((depth, rank) for rank in ranks.values())
            if next_token is not None:
                accepted[depth, ranks[next_token]] += 1
    return AcceptanceCounts(tuple(reached[depth] for depth in range(len(reached))), *(
        tuple(tuple(counts[depth, rank] for rank in range(COUNTED_RANKS)) for depth in range(len(reached)))
        for counts in (proposed, accepted)))


def rows_along(draft: Lattice, path: Sequence[int]) -> Iterator[list[int]]:
    """Yield what a drafter proposes after the root and each token of a path, until the path leaves its proposals."""
    row = 0
    for depth, token in enumerate([*path, None][:draft.depth]):
        tokens = draft.tokens[depth, row].tolist()
        yield tokens
        if draft.tokens.shape[1] > 1:
            if token not in tokens:
                return
            row = int(draft.follow[depth, row, tokens.index(token)])
