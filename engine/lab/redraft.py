"""Builds other trees from a run's recorded drafts: of other kinds, or at other budgets.

The text is known, so the accepted tokens of such a tree at a recorded position are exact. A run at another budget would
begin its rounds at other positions, however.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import FIXED
from engine.decoding.builders import best_first, best_rows, chain
from engine.decoding.methods import METHODS, split_rule_of
from engine.decoding.tree import from_nodes
from engine.errors import RequestError
from engine.lab.replay import KnownText, Replay, known_text
from engine.lab.settings import Setting
from engine.lab.statistics import Measured, mean_of
from engine.records import WAIT, Acceptance, DraftTree, Floats, Integers, Lattice, Round, Verification
from engine.trace import Trace

CHAIN, WIDE, MARGINALS, TRANSITIONS = "chain", "wider chain", "tree by marginals", "tree by transitions"
MAX_ROUNDS = 300  # sampled evenly from a run; their other trees take about a second
CountedRuns = Sequence[tuple[Trace, Sequence[Round]]]  # runs, each with the rounds that drafted
TREE_SIZES = (2, 4, 8, 12, 16, 24, 32, 64, 128)  # drafted nodes


@dataclass(frozen=True)
class RedraftedLength:
    """One kind of tree from one drafter's drafts at one budget."""

    drafter: str
    kind: str
    budget: int
    accepted: Measured  # drafted tokens per round
    gain_over_chain: Measured  # accepted tokens minus those of a chain with the same budget, paired by position


def redraft_kinds(counted: CountedRuns) -> tuple[tuple[RedraftedLength, ...], tuple[str, ...]]:
    """Measure every kind of tree at every size, by drafter. Also return sentences about what was left out."""
    lengths: dict[str, dict[tuple[str, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    omissions: dict[str, None] = {}  # an ordered set
    for trace, rounds in counted:
        try:
            text = known_text(trace)
        except RequestError as error:
            omissions[str(error)] = None
            continue
        with_bonus = [*text.token_ids, trace.entries[-1].round.acceptance.bonus]
        text = replace(text, token_ids=np.asarray(with_bonus, np.int32))
        positions = [round_.start - text.start for round_ in rounds[::-(-len(rounds) // MAX_ROUNDS)]]
        for name, drafts in text.proposals.items():
            for position in filter(drafts.__contains__, positions):
                for cell, length in _lengths(text, position, drafts[position]).items():
                    lengths[name][cell].append(length)
    names = {name for name, cells in lengths.items() if not any(kind == TRANSITIONS for kind, _ in cells)}
    if names:
        drafters = " and ".join(sorted(names))
        omissions[f"Marginals are all that {drafters} proposes, so there is no tree by transitions."] = None
    redrafts = []
    for name, cells in lengths.items():
        for (kind, budget), accepted in cells.items():
            gains = np.subtract(accepted, cells[CHAIN, budget]).tolist()
            redrafts.append(RedraftedLength(name, kind, budget, mean_of(accepted), mean_of(gains)))
    return tuple(redrafts), tuple(omissions)


def _lengths(text: KnownText, position: int, lattice: Lattice) -> Mapping[tuple[str, int], int]:
    """Return accepted drafted tokens by kind and size; {} if the end of the text would cut one short."""
    root, remaining = int(text.token_ids[position]), len(text.token_ids) - position
    max_size = max(lattice.tokens.shape[2], lattice.depth)
    sizes = [size for size in TREE_SIZES if size <= max_size]
    full_chain = len(text.accepted_nodes(position, chain(lattice, root, lattice.depth))) - 1
    lengths = {(CHAIN, size): min(full_chain, size) for size in sorted({*sizes, *range(1, lattice.depth + 1)})}
    lengths |= {(kind, size): len(text.accepted_nodes(position, tree)) - 1
                for size in sizes for kind, tree in branching(lattice, root, size).items()}
    return {} if max(lengths.values(), default=0) >= remaining - 1 else lengths


def branching(lattice: Lattice, root: int, nodes: int) -> dict[str, DraftTree]:
    """Return a lattice's trees by kind, except the chain, each with at most ``nodes`` drafted nodes."""
    trees = {WIDE: wide_chain(lattice, root, nodes)}
    if lattice.tokens.shape[1] == 1:
        return {**trees, MARGINALS: best_first(lattice, root, nodes)}
    return {**trees, MARGINALS: best_first(marginals_of(lattice), root, nodes),
            TRANSITIONS: best_first(lattice, root, nodes)}


def wide_chain(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """Return the tree of the most probable prefixes that leave the greedy path only at their last token."""
    rows = best_rows(lattice)
    steps = lattice.logprobs[np.arange(lattice.depth), rows]
    greedy_path = np.concatenate([[np.float32(0)], steps[:-1, 0].cumsum(dtype=np.float32)])
    scores = (greedy_path[:, None] + steps).astype(np.float32)
    order = (-scores).ravel().argsort(kind="stable")[:nodes]
    order = order[np.isfinite(scores.ravel()[order])]
    depths, rank = np.divmod(order, scores.shape[1])
    first = np.flatnonzero(rank == 0)
    parents = np.zeros(lattice.depth + 1, np.int32)  # the greedy path's node at each depth
    parents[depths[first] + 1] = first + 1
    return from_nodes(root, lattice.tokens[depths, rows[depths], rank], parents[depths], scores.ravel()[order])


def marginals_of(lattice: Lattice) -> Lattice:
    """Reduce a lattice to one row per depth, by summing each token's probability over all paths to it."""
    depth, rows, width = lattice.tokens.shape
    tokens = np.zeros((depth, 1, width), np.int32)
    logprobs = np.full((depth, 1, width), -np.inf, np.float32)
    mass: NDArray[np.float64] = np.zeros(rows)
    mass[0] = 1.0
    for level in range(depth):
        weights = mass[:, None] * np.exp(lattice.logprobs[level].astype(np.float64))
        names, inverse = np.unique(lattice.tokens[level], return_inverse=True)
        sums = np.bincount(inverse.ravel(), weights.ravel())
        best = (-sums).argsort(kind="stable")[:width]
        tokens[level, 0, :len(best)] = names[best]
        with np.errstate(divide="ignore"):
            logprobs[level, 0, :len(best)] = np.log(np.minimum(sums[best], 1))
        mass = np.bincount(lattice.follow[level].ravel(), weights.ravel(), rows).astype(np.float64)
    return Lattice(tokens, logprobs, np.zeros_like(tokens))


BUDGETS = tuple(2**power for power in range(11))
Z_80_PERCENT = 1.28  # an 80 % interval reaches this many standard errors to either side
MIN_FILLED = 0.9  # fraction of a budget that the recorded candidates fill, for it to be predicted
MAX_RATIO_ERROR = 1.5  # ratio of a predicted speed-up to the measured one, either way
Figures = NDArray[np.float64]


class Redrafting:
    """Builds a run's trees at any budget from its recorded drafts; RequestError if acceptance is unknown."""

    def __init__(self, trace: Trace) -> None:
        request = trace.header.request
        row = METHODS.get(request.method)
        if row is None or not row.replayable or row.drafter_count == 0:
            raise RequestError(f"Other budgets cannot be predicted for {request.method[:40]}: its acceptance is "
                               "random, or its drafts depend on the budget.")
        self.trace, self._text = trace, known_text(trace, BUDGETS[-1])
        if not any(self._text.proposals.values()):
            raise RequestError(f"None of its {len(trace.entries)} rounds recorded what a drafter proposed, so no other "
                               "budget can be tried out; choose another run.")
        self._replay = Replay(
            Setting(request.method, 0, request.split, tuple(self._text.proposals)), self._text)

    def tree(self, round_: Round, budget: int) -> tuple[DraftTree, Integers]:
        """Return a round's tree at that budget, and the nodes it would have had accepted, root first."""
        position = round_.start - self._text.start
        tree = self._replay.tree(position, budget)
        return tree, self._text.accepted_nodes(position, tree)

    def kept_and_rows(self, round_: Round, budgets: Sequence[int]) -> Figures:
        """Return the tokens that a round would have committed and the rows it would have verified, (2, budgets)."""
        trees = [self.tree(round_, budget) for budget in budgets]
        return np.asarray([[len(keep) for _, keep in trees], [len(tree) for tree, _ in trees]], np.float64)

    def is_replayable(self, round_: Round) -> bool:
        """Return whether the acceptance of other trees is known: the round drafted, and enough text follows it."""
        deepest = max((draft.depth for draft in round_.drafts), default=0)
        unfinished = round_.start - self._text.start + deepest < len(self._text.token_ids)
        return deepest > 0 and (unfinished or self.trace.end.reason == "stop")

    def round_at(self, recorded: Round, budget: int) -> Round:
        """Return a round as it would be at that budget. Statistics of new nodes are NaN, their choices −1."""
        tree, keep = self.tree(recorded, budget)
        text = np.append(self._text.token_ids, self.trace.entries[-1].round.acceptance.bonus)
        following = text[recorded.start - self._text.start + 1:][:len(keep)]
        counterparts, verified = _counterparts(tree, recorded.tree), recorded.verification
        choice = np.where(counterparts >= 0, verified.choice[counterparts], -1).astype(np.int32)
        choice[keep] = following

        def recorded_or_nan(values: Floats) -> Floats:
            return np.where(counterparts >= 0, values[counterparts], np.nan).astype(np.float32)

        verification = Verification(choice, *map(recorded_or_nan, (
            verified.logprobs, verified.entropy, verified.gap, verified.offered, verified.processed)))
        return replace(recorded, tree=tree, candidates=(tree,), verification=verification,
                       acceptance=Acceptance(keep, int(following[-1])), seconds={}, alternatives=None)


def _counterparts(tree: DraftTree, other: DraftTree) -> Integers:
    """Return, for each node, the other tree's node with the same path, (n,) int32; −1 if there is none."""
    def edges(side: DraftTree) -> list[tuple[int, int, int]]:
        return list(zip(side.parents.tolist(), side.tokens.tolist(), side.drafters.tolist(), strict=True))

    children = {edge: node for node, edge in enumerate(edges(other)) if node}
    counterparts = [0]
    for parent, token, drafters in edges(tree)[1:]:
        counterparts.append(children.get((counterparts[parent], token, drafters), -1))
    return np.asarray(counterparts, np.int32)


@dataclass(frozen=True, eq=False)
class BudgetCurve:
    """What a run's rounds would commit and verify at each budget: ``kept`` tokens and ``rows``, (rounds, budgets)."""

    trace: Trace
    budgets: Sequence[int]
    kept: Figures
    rows: Figures

    @property
    def candidates(self) -> int:
        """Nodes per round at the largest budget, on average: all that the drafts hold if they do not fill it."""
        return round(float(self.rows[:, -1].mean())) - 1

    def predictable(self) -> "BudgetCurve":
        """Leave out the budgets beyond the run's own that its drafts do not fill: a run at them would draft more."""
        own, filled = self.trace.header.request.budget, (self.rows.mean(0) - 1) / MIN_FILLED
        at = [place for place, budget in enumerate(self.budgets) if budget <= max(own, filled[place])]
        budgets = [self.budgets[place] for place in at]
        if budgets[-1] < self.candidates and len(at) < len(self.budgets):
            budgets, at = [*budgets, self.candidates], [*at, -1]
        return replace(self, budgets=budgets, kept=self.kept[:, at], rows=self.rows[:, at])

    @property
    def tau(self) -> tuple[Figures, Figures, Figures]:
        """Tokens per round at each budget: the mean, and the ends of its 80 % interval."""
        mean = self.kept.mean(0)
        half_width = Z_80_PERCENT * self.kept.std(0) / np.sqrt(max(1, len(self.kept) - 1))
        return mean, np.maximum(1, mean - half_width), mean + half_width

    def speed(self, cost: CostCurve, scale: float = 1.0) -> tuple[Figures, Figures, Figures]:
        """Predict tokens per second at each budget and the ends of its range, multiplied by ``scale``."""
        cost = cost.monotonic()
        rows = self.rows.mean(0).tolist()

        def speeds(tau: Figures, verify_ms: Sequence[float]) -> Figures:
            adjusted = replace(cost, verify_ms=tuple(verify_ms))
            round_ms = [_round_ms(self.trace, adjusted, row, budget)
                        for budget, row in zip(self.budgets, rows, strict=True)]
            predicted: Figures = tau / np.asarray(round_ms) * (1e3 * scale)
            return predicted

        mean, low, high = self.tau
        return speeds(mean, cost.verify_ms), speeds(low, cost.verify_high_ms), speeds(high, cost.verify_low_ms)


@dataclass(frozen=True)
class ModelledSpeed:
    """A run's tokens per second over its unshared rounds: ``measured``, and ``predicted`` by a cost curve; and plain
    decoding's by that curve."""

    measured: float
    predicted: float
    predicted_plain: float
    tau: float

    def curve_problem(self, ratio: float = 0.0) -> str:
        """Say why the curve contradicts a run ``ratio`` times as fast as plain decoding (0: unknown), or ""."""
        predicted = self.predicted / self.predicted_plain
        limit = f"it was {ratio:.1f} times beside it" if ratio else f"it cannot be more than τ, {self.tau:.1f} times"
        if (1 / MAX_RATIO_ERROR < predicted / ratio < MAX_RATIO_ERROR) if ratio else predicted <= self.tau:
            return ""
        return (f"By the passes that were measured this run would be {predicted:.1f} times as fast as plain decoding; "
                f"{limit}, so no other budget's speed is predicted from them.")


def modelled_speed(trace: Trace, cost: CostCurve) -> ModelledSpeed | None:
    """Return a run's speed, measured and by a cost curve; None if no round is timed."""
    request, cost = trace.header.request, cost.monotonic()
    unshared = [round_ for round_ in trace.rounds if WAIT not in round_.seconds and round_.seconds]
    seconds = sum(sum(round_.seconds.values()) for round_ in unshared)
    tokens = sum(len(round_.acceptance.keep) for round_ in unshared)
    predicted_ms = sum(
        _round_ms(trace, cost, rows, request.budget if request.pace == FIXED else rows - 1) if rows > 1
        else cost.plain_ms for rows in (len(round_.tree) for round_ in unshared))
    if not seconds:
        return None
    return ModelledSpeed(tokens / seconds, 1e3 * tokens / predicted_ms, 1e3 / cost.plain_ms, tokens / len(unshared))


def _round_ms(trace: Trace, cost: CostCurve, rows: float, budget: int) -> float:
    request = trace.header.request
    method = METHODS[request.method]
    nodes = max(split_rule_of(method, request.split)(budget, method.drafter_count))
    return cost.round_ms(round(rows), nodes, method.drafter_count)
