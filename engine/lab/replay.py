"""What-if: replays every method at every budget over a known text, and times the rounds by the cost curve.

The text does not depend on the tree, because a sampled token's draw belongs to its position. So the lengths are those
of a real run. Speeds come from the measured cost curve, and are labelled predicted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import perf_counter

import numpy as np

from engine.budget.auto import AutoBudget, best_order
from engine.budget.cost import CostCurve
from engine.decoding.acceptance import longest_path
from engine.decoding.budget_policy import AUTO, MAX_AUTO_NODES, BudgetPolicy, cut_trees
from engine.decoding.builders import Builder, best_first, chain
from engine.decoding.methods import METHODS, method_named, split_rule_of
from engine.decoding.protocols import Features, Target
from engine.decoding.tree import depths, from_nodes, pack, prefix, root_only
from engine.errors import RequestError
from engine.lab.settings import Setting
from engine.records import Acceptance, DraftTree, Integers, Lattice, Request, Sampling
from engine.trace import Trace, committed_ids, mean_length

PREFIXES_NEST = frozenset({chain, best_first})  # builders whose tree of n nodes is the beginning of any larger one
SEGMENT = 256  # tokens of the text that the target reads in one pass
TIMED_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class KnownText:
    """A text that the target wrote, and what drafters propose along it. A position is an index of ``token_ids``."""

    token_ids: Integers  # (n,) int32
    start: int  # tokens before it
    context_limit: int
    proposals: Mapping[str, Mapping[int, Lattice]] = field(default_factory=dict)  # by drafter and position
    max_nodes: int = 0  # of the largest tree that is kept
    _largest: dict[tuple[str, Builder, int], DraftTree] = field(default_factory=dict, init=False)

    def accepted_nodes(self, position: int, tree: DraftTree) -> Integers:
        """Return the longest path of a tree that matches the text at this position, (a,) int32."""
        index = position + depths(tree.parents)
        inside = index < len(self.token_ids)
        tokens = self.token_ids[np.where(inside, index, position)]
        return longest_path(tree.parents, inside & (tree.tokens == tokens))

    def build(self, drafter: str, builder: Builder, position: int, nodes: int) -> DraftTree:
        lattice = self.proposals[drafter][position].cut(self.context_limit - self.start - position - 1)
        return builder(lattice, int(self.token_ids[position]), nodes)

    def tree(self, drafter: str, builder: Builder, position: int, nodes: int) -> DraftTree:
        """Return the tree of ``build``. If trees nest, it is cut from the largest, which is built once a position."""
        if builder not in PREFIXES_NEST or nodes > self.max_nodes:
            return self.build(drafter, builder, position, nodes)
        key = drafter, builder, position
        if key not in self._largest:
            self._largest[key] = self.build(*key, self.max_nodes)
        return prefix(self._largest[key], nodes)


def known_text(trace: Trace, max_nodes: int = 0) -> KnownText:
    """Return the text and drafts of a recorded run; RequestError if no other tree can be tried on it."""
    header, rounds = trace.header, trace.rounds
    method = METHODS.get(header.request.method)
    if method and not method.follows_text:
        raise RequestError(f"The method {header.request.method} draws its own text, so no other tree is tried over it.")
    if header.chunked or header.every > 1 or trace.end.dropped or trace.end.refused or any(
            after.start != before.start + len(before.acceptance.keep) for before, after in pairwise(rounds)):
        raise RequestError("Rounds are missing from a recording, so no other tree is tried over its text.")
    start = rounds[0].start if rounds else 0
    proposals: dict[str, dict[int, Lattice]] = {name: {} for name in drafter_names(trace)}
    for round_ in rounds:
        for by_position, lattice in zip(proposals.values(), round_.drafts, strict=False):
            by_position[round_.start - start] = lattice
    text = np.asarray(committed_ids(rounds), np.int32)
    return KnownText(text, start, header.context_limit or 2**31, proposals, max_nodes)


def drafter_names(trace: Trace) -> list[str]:
    """Return the names of the drafters whose proposals were recorded."""
    count = max((len(round_.drafts) for round_ in trace.rounds), default=0)
    names = trace.header.drafters if len(set(trace.header.drafters)) == len(trace.header.drafters) else ()
    return [names[drafter] if drafter < len(names) else f"drafter {drafter}" for drafter in range(count)]


@dataclass(frozen=True, eq=False)
class TextPass:
    """One target pass over prompt and text."""

    features: tuple[Features, ...]  # of the prompt, then of each segment of the text
    choice: Integers  # (n,) int32, the target's choice at each position of the text


def read_known_text(request: Request, token_ids: Sequence[int], target: Target) -> TextPass:
    """Run the target over its own text in chains of ``SEGMENT`` tokens. Frees its cache."""
    start = len(request.prompt_ids)
    try:
        choice, features = target.prefill(request.prompt_ids, len(token_ids), request.sampling)
        segments, choices = [features], [np.asarray([choice], np.int32)]
        for first in range(0, len(token_ids), SEGMENT):
            tokens = np.asarray(token_ids[first:first + SEGMENT], np.int32)
            rows = np.arange(len(tokens), dtype=np.int32)
            chain = from_nodes(int(tokens[0]), tokens[1:], rows[:-1], np.zeros(len(tokens) - 1, np.float32))
            choices.append(target.verify_batch([target], [pack(chain, start + first)])[0].choice)
            segments.append(target.commit(rows))
    finally:
        target.release()
    return TextPass(tuple(segments), np.concatenate(choices)[:len(token_ids)])


@dataclass(frozen=True, eq=False)
class Step:
    """One round of a replay: ``drafter_count`` drafters drafted trees of ``built`` nodes."""

    position: int
    drafter_count: int
    built: int
    tree: DraftTree  # verified
    keep: Integers  # accepted nodes, root first


class Replay:
    """Replays a setting over a known text, at any budget. RequestError if its method does not follow the text."""

    def __init__(self, setting: Setting, text: KnownText) -> None:
        self._row = row = method_named(setting.method)
        if not row.follows_text:
            raise RequestError(f"The method {setting.method} accepts by its own draws ({row.accept.__name__}); a "
                               "what-if needs a method that follows the text.")
        self.drafters, self.text = setting.drafters, text
        self._split_budget = split_rule_of(row, setting.split)

    def tree(self, position: int, budget: int, uncached: bool = False) -> DraftTree:
        tree_of = self.text.build if uncached else self.text.tree
        trees = tuple(tree_of(drafter, self._row.build, position, nodes) for drafter, nodes in zip(
            self.drafters, self._split_budget(budget, len(self.drafters)), strict=True))
        return self._row.combine(trees, budget)

    def steps(self, budget: int, policy: BudgetPolicy | None = None) -> Iterator[Step]:
        policy = policy or BudgetPolicy()
        position, size = 0, len(self.text.token_ids)
        while position < size:
            drafter_count, built = policy.plan(len(self.drafters), budget)
            root = int(self.text.token_ids[position])
            tree = self.tree(position, built) if drafter_count else root_only(root)
            tree = cut_trees([policy], [tree])[0]
            keep = self.text.accepted_nodes(position, tree)
            # the bonus token after the last one is unknown and not needed
            policy.learn(tree, Acceptance(keep, int(self.text.token_ids[min(position + len(keep), size - 1)])))
            yield Step(position, drafter_count, built, tree, keep)
            position += len(keep)

    def build_ms(self, budget: int, positions: Sequence[int]) -> float:
        """Measure the median milliseconds of building and combining a round's trees, at some of the positions."""
        times = []
        for position in positions[:TIMED_ROUNDS] if self.drafters else ():
            began = perf_counter()
            self.tree(position, budget, uncached=True)
            times.append(1e3 * (perf_counter() - began))
        return float(np.median(times)) if times else 0.0


@dataclass(frozen=True)
class Forecast:
    """What one setting would do on the known text. It names no drafters: they are the rig's."""

    setting: Setting
    lengths: tuple[int, ...]  # tokens committed by each round, root included
    rows: tuple[int, ...]  # verified in each round, root included
    build_ms: float = 0.0  # measured median of building one round's trees
    predicted_ms: float = 0.0  # of the text without the prefill, by the cost curve; 0 without a curve

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    @property
    def tau(self) -> float:
        return mean_length(self.tokens, len(self.lengths))

    @property
    def predicted_tokens_per_second(self) -> float:
        """Predicted, never measured; 0 if no cost curve was given."""
        return 1e3 * self.tokens / self.predicted_ms if self.predicted_ms else 0.0


def forecasts(setting: Setting, budgets: Sequence[int], text: KnownText, curve: CostCurve | None) -> list[Forecast]:
    """Forecast a setting at every budget and, with a cost curve, at ``auto``; without drafters, only at budget 0."""
    replay = Replay(setting, text)
    settings = [replace(setting, budget=budget, drafters=()) for budget in (budgets if setting.drafters else (0,))]
    if curve and setting.drafters:
        settings.append(replace(setting, budget=MAX_AUTO_NODES, drafters=(), pace=AUTO))
    found = []
    for one in settings:
        steps = list(replay.steps(one.budget, AutoBudget(curve) if curve and one.pace == AUTO else None))
        typical_budget = int(np.median([step.built for step in steps] or [0]))
        build_ms = replay.build_ms(typical_budget, [step.position for step in steps])
        predicted_ms = sum(curve.round_ms(len(step.tree), step.built, step.drafter_count, build_ms)
                           for step in steps) if curve else 0.0
        found.append(Forecast(one, tuple(len(step.keep) for step in steps), tuple(len(step.tree) for step in steps),
                              build_ms, predicted_ms))
    return found


@dataclass(frozen=True)
class Gain:
    """Mean accepted tokens that the n-th best node contributes (index n − 1). Nodes pay while this exceeds the cost of
    a row."""

    setting: Setting
    expected: tuple[float, ...]  # mean path probability under the drafter
    realised: tuple[float, ...]  # fraction of rounds in which it was accepted


def gain(setting: Setting, text: KnownText) -> Gain:
    """Return what each further node is worth, averaged over the rounds of this setting."""
    steps = list(Replay(setting, text).steps(setting.budget))
    max_nodes = max((len(step.tree) - 1 for step in steps), default=0)
    expected, realised = np.zeros(max_nodes), np.zeros(max_nodes)
    for step in steps:
        order = best_order(step.tree)[1:]
        expected[:len(order)] += np.exp(step.tree.logprobs[order])
        realised[:len(order)] += np.isin(order, step.keep)
    rounds = max(1, len(steps))
    return Gain(replace(setting, drafters=()), *(tuple((sums / rounds).tolist()) for sums in (expected, realised)))


@dataclass(frozen=True)
class WhatIf:
    """The forecasts of all settings for one text, by method, then by budget. ``departures``: positions at which a plain
    pass over the text chooses another token (rounding; 0 in float32)."""

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

    def forecasts_for(self, curve: Setting) -> tuple[Forecast, ...]:
        return tuple(forecast for forecast in self.forecasts if forecast.setting.curve == curve)

    @property
    def withheld(self) -> str:
        """Why no speed is predicted from the cost curve; "" if one is, or without a curve."""
        return self.cost.unusable_reason if self.cost else ""

    @property
    def best(self) -> Forecast | None:
        """The setting with the highest predicted tokens/s; None if no speed is predicted."""
        timed = [] if self.withheld else [forecast for forecast in self.forecasts if forecast.predicted_ms]
        return max(timed, key=lambda forecast: forecast.predicted_tokens_per_second, default=None)
