"""What-if: replays every method at every budget over a known text, and prices the rounds by the cost curve.

A round begins at a place of the text and keeps k tokens; the next begins k places on, so only some places are visited.
A tree depends only on its place, and the text does not depend on the tree (if sampled, because the draw belongs to the
position), so the lengths are those of a real run. Speed is predicted from the measured cost curve, and is labelled as
predicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from engine.budget.auto import AutoBudget, best_order
from engine.budget.cost import CostCurve
from engine.decoding.acceptance.walk import longest_path
from engine.decoding.budget_policy import AUTO, FIXED, MOST_AUTO, BudgetPolicy, FixedBudget
from engine.decoding.builders import BUILDERS
from engine.decoding.combiners import COMBINERS
from engine.decoding.methods import METHODS, method_named, split_rule_of
from engine.decoding.plan import Features, Target
from engine.decoding.tree import bare, beginning, depths, pack, plant
from engine.errors import RequestError
from engine.records import Acceptance, DraftTree, Integers, Proposals, Request, Sampling
from engine.trace import mean_length

PREFIXES_NEST = frozenset({"chain", "best_first"})  # builders whose tree of n nodes is the beginning of any larger one
SEGMENT = 256  # tokens of the text that the target reads in one pass
TIMED_PLACES = 3


@dataclass(frozen=True, eq=False)
class KnownText:
    """A text that the target has written. token_ids (n,) int32; ``start`` is the position of the first one."""

    token_ids: Integers
    start: int
    context_limit: int

    def deepest(self, place: int) -> int:
        """How many positions are left after this place's."""
        return self.context_limit - self.start - place - 1

    def agreed(self, place: int, tree: DraftTree) -> Integers:
        """The nodes that a round here keeps, (a,) int32: the longest path of the tree that the text follows, up to its
        end."""
        index = place + depths(tree.parents)
        inside = index < len(self.token_ids)
        tokens = self.token_ids[np.where(inside, index, place)]
        return longest_path(tree.parents, inside & (tree.tokens == tokens))


@dataclass(frozen=True, eq=False)
class TextPass:
    """One target pass over prompt and text: ``features`` of the prompt and of each segment of the text, in order;
    choice (n,) int32, the target's choice at each place of the text."""

    features: tuple[Features, ...]
    choice: Integers


def reread(request: Request, token_ids: Sequence[int], target: Target) -> TextPass:
    """Let the target read its own text again, in chains after the prompt; its cache is freed at the end."""
    start = len(request.prompt_ids)
    try:
        choice, features = target.prefill(request.prompt_ids, len(token_ids), request.sampling)
        segments, choices = [features], [np.asarray([choice], np.int32)]
        for first in range(0, len(token_ids), SEGMENT):
            tokens = np.asarray(token_ids[first:first + SEGMENT], np.int32)
            rows = np.arange(len(tokens), dtype=np.int32)
            chain = plant(int(tokens[0]), tokens[1:], rows[:-1], np.zeros(len(tokens) - 1, np.float32))
            choices.append(target.verify(pack(chain, start + first)).choice)
            segments.append(target.commit(rows))
    finally:
        target.release()
    return TextPass(tuple(segments), np.concatenate(choices)[:len(token_ids)])


@dataclass(frozen=True, eq=False)
class Grower:
    """Builds one drafter's trees. Where trees nest, the largest is built once per place and cut, which is exact."""

    known: KnownText
    proposals: Proposals
    builder: str
    most: int
    whole: dict[int, DraftTree] = field(default_factory=dict)

    def build(self, place: int, nodes: int) -> DraftTree:
        """The tree of ``nodes`` drafted nodes at a place, built anew."""
        lattice = self.proposals[place].cut(self.known.deepest(place))
        return BUILDERS[self.builder](lattice, int(self.known.token_ids[place]), nodes)

    def grow(self, place: int, nodes: int) -> DraftTree:
        """The tree of ``build``, cut from the largest where trees nest."""
        if self.builder not in PREFIXES_NEST or nodes > self.most:
            return self.build(place, nodes)
        if place not in self.whole:
            self.whole[place] = self.build(place, self.most)
        return beginning(self.whole[place], nodes)


Growers = Mapping[tuple[str, str], Grower]  # by drafter and builder


@dataclass(frozen=True)
class Point:
    """A line of the plot: a method, its split of the budget, and the drafters that serve it, in order."""

    method: str
    split: str
    drafters: tuple[str, ...]


def points(drafters: Mapping[str, Sequence[str]]) -> list[Point]:
    """A point for each method by name, one for each split that makes a difference; ``drafters`` by method."""
    return [Point(method, split, tuple(names)) for method, names in drafters.items()
            for split in METHODS[method].splits]


def builders_of(points: Sequence[Point]) -> set[tuple[str, str]]:
    """The (drafter, builder) pairs that the points need a grower for."""
    return {(drafter, METHODS[point.method].build) for point in points for drafter in point.drafters}


@dataclass(frozen=True, eq=False)
class Step:
    """One round of a replay: its place, how many drafters draft, the budget that their trees are built for, the tree
    that is verified, and the nodes that are kept, root first."""

    place: int
    drafter_count: int
    built: int
    tree: DraftTree
    keep: Integers


class Replay:
    """A point over the known text. RequestError where its method does not follow the text."""

    def __init__(self, point: Point, known: KnownText, growers: Growers) -> None:
        row = method_named(point.method)
        if not row.follows_text:
            raise RequestError(f"The method {point.method} accepts by its own draws ({row.accept}); a what-if needs a "
                               "method that follows the text.")
        self.point, self.known = point, known
        self._split_budget, self._combine = split_rule_of(row, point.split), COMBINERS[row.combine]
        self._growers = [growers[drafter, row.build] for drafter in point.drafters]

    def tree(self, place: int, budget: int) -> DraftTree:
        """The tree that the drafters' trees for this budget combine to at a place."""
        budgets = self._split_budget(budget, len(self._growers))
        trees = tuple(grower.grow(place, nodes) for grower, nodes in zip(self._growers, budgets, strict=True))
        return self._combine(trees, budget)

    def steps(self, budget: int, policy: BudgetPolicy | None = None) -> Iterator[Step]:
        """The rounds that write the text."""
        policy = policy or FixedBudget()
        place, size = 0, len(self.known.token_ids)
        while place < size:
            drafters, built = policy.opens(len(self._growers), budget)
            tree = policy.cut(self.tree(place, built) if drafters else bare(int(self.known.token_ids[place])))
            keep = self.known.agreed(place, tree)
            # the bonus token after the last one is unknown and not needed
            policy.learn(tree, Acceptance(keep, int(self.known.token_ids[min(place + len(keep), size - 1)])))
            yield Step(place, drafters, built, tree, keep)
            place += len(keep)

    def build_ms(self, budget: int, places: Sequence[int]) -> float:
        """The measured median milliseconds of building and combining one round's trees, at some of the places."""
        budgets = self._split_budget(budget, len(self._growers))
        times = []
        for place in places[:TIMED_PLACES] if self._growers else ():
            began = perf_counter()
            trees = tuple(grower.build(place, nodes) for grower, nodes in zip(self._growers, budgets, strict=True))
            self._combine(trees, budget)
            times.append(1e3 * (perf_counter() - began))
        return float(np.median(times)) if times else 0.0


@dataclass(frozen=True)
class Forecast:
    """One setting on the known text.

    ``budget`` counts drafted nodes as in ``Request``; it is the largest allowed where ``pace`` is ``auto``. Per round:
    ``lengths``, tokens kept, the root included; ``rows``, what the target verifies, the root included. ``build_ms``
    is the measured median of building and combining one round's trees. ``predicted_ms`` is the whole text's time
    without the prefill from the cost curve; 0 where no curve was given.
    """

    method: str
    split: str
    budget: int
    lengths: tuple[int, ...]
    rows: tuple[int, ...]
    build_ms: float = 0.0
    predicted_ms: float = 0.0
    pace: str = FIXED

    @property
    def tokens(self) -> int:
        """The text's length: Σ lengths."""
        return sum(self.lengths)

    @property
    def tau(self) -> float:
        return mean_length(self.tokens, len(self.lengths))

    @property
    def predicted_tokens_per_second(self) -> float:
        """Predicted, never measured; 0 where no cost curve was given."""
        return 1e3 * self.tokens / self.predicted_ms if self.predicted_ms else 0.0


def forecasts(point: Point, budgets: Sequence[int], known: KnownText, growers: Growers,
              curve: CostCurve | None) -> list[Forecast]:
    """The forecasts of a point at every budget and, with a curve, at ``auto``; without drafters, only at budget 0."""
    rounds = Replay(point, known, growers)
    fixed = [_forecast(rounds, budget, None, curve) for budget in (budgets if point.drafters else (0,))]
    return [*fixed, _forecast(rounds, MOST_AUTO, AutoBudget(curve), curve)] if curve and point.drafters else fixed


def _forecast(rounds: Replay, budget: int, auto: AutoBudget | None, curve: CostCurve | None) -> Forecast:
    steps = list(rounds.steps(budget, auto))
    usual = int(np.median([step.built for step in steps] or [0]))
    build_ms = rounds.build_ms(usual, [step.place for step in steps])
    predicted_ms = sum(curve.round_ms(len(step.tree), step.built, step.drafter_count, build_ms)
                       for step in steps) if curve else 0.0
    return Forecast(
        rounds.point.method, rounds.point.split, budget, tuple(len(step.keep) for step in steps),
        tuple(len(step.tree) for step in steps), build_ms, predicted_ms, AUTO if auto else FIXED)


@dataclass(frozen=True)
class Gain:
    """What the n-th best drafted node of a method is worth, averaged over the rounds of its largest budget.

    Index n − 1 is the n-th node in descending cumulative probability. ``expected``: its mean cumulative probability
    under the drafter, in tokens. ``realised``: the share of rounds in which it was kept. Plotted against the curve's
    milliseconds per extra row, their crossing explains the best budget.
    """

    method: str
    split: str
    expected: tuple[float, ...]
    realised: tuple[float, ...]


def gain(point: Point, budget: int, known: KnownText, growers: Growers) -> Gain:
    """What each further node is worth to a point, averaged over the rounds of this budget."""
    steps = list(Replay(point, known, growers).steps(budget))
    most = max((len(step.tree) - 1 for step in steps), default=0)
    expected, realised = np.zeros(most), np.zeros(most)
    for step in steps:
        order = best_order(step.tree)[1:]
        expected[:len(order)] += np.exp(step.tree.logprobs[order])
        realised[:len(order)] += np.isin(order, step.keep)
    rounds = max(1, len(steps))
    return Gain(point.method, point.split, tuple((expected / rounds).tolist()), tuple((realised / rounds).tolist()))


@dataclass(frozen=True)
class WhatIf:
    """Every setting's forecast for one text, in the order of methods and then of budgets.

    ``departures`` counts the positions where one pass over the whole text chooses another token than the text has: 0 in
    float32; in bfloat16, rounding may cause some. ``seconds`` is the time that the what-if took, without measuring the
    cost curve.
    """

    prompt: str
    rig: str
    hardware: str
    dtype: str
    sampling: Sampling
    prompt_tokens: int
    tokens: int
    departures: int
    forecasts: tuple[Forecast, ...]
    gains: tuple[Gain, ...]
    cost: CostCurve | None
    seconds: float

    def of(self, method: str, split: str = "total") -> tuple[Forecast, ...]:
        """One method's forecasts by budget: a line of the plot."""
        return tuple(row for row in self.forecasts if (row.method, row.split) == (method, split))

    @property
    def withheld(self) -> str:
        """Why no speed is predicted from its cost curve, in a sentence; empty where it is, and without a curve."""
        return self.cost.disorder if self.cost else ""

    @property
    def best(self) -> Forecast | None:
        """The setting with the highest predicted tokens/s; None without a cost curve that a best can be read from."""
        priced = [] if self.withheld else [forecast for forecast in self.forecasts if forecast.predicted_ms]
        return max(priced, key=lambda forecast: forecast.predicted_tokens_per_second, default=None)
