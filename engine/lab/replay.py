"""Replays methods over a known text: what each would have drafted at each place, and how far the text agrees with it.

A round begins at a place of the text and keeps k tokens; the next begins k places on, so only some places are visited.
A tree depends only on its place, and the text does not depend on the tree, so the lengths are those of a real run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from engine.decoding.acceptance.walk import longest_path
from engine.decoding.budget_policy import BudgetPolicy, FixedBudget
from engine.decoding.builders import BUILDERS
from engine.decoding.combiners import COMBINERS
from engine.decoding.methods import Method, method_named, share_named
from engine.decoding.plan import Features, Target
from engine.decoding.tree import bare, beginning, depths, pack, plant
from engine.errors import RequestError
from engine.records import Acceptance, DraftTree, Integers, Proposals, Request

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


@dataclass(frozen=True, eq=False)
class TextPass:
    """One target pass over prompt and text: ``features`` of the prompt and of each segment of the text, in order;
    choice (n,) int32, the target's choice at each place of the text."""

    features: tuple[Features, ...]
    choice: Integers


@dataclass(frozen=True, eq=False)
class Step:
    """One round of a replay: its place, how many drafters draft, the budget that their trees are built for, the tree
    that is verified, and the nodes that are kept, root first."""

    place: int
    drafter_count: int
    built: int
    tree: DraftTree
    keep: Integers


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


@dataclass(frozen=True, eq=False)
class Replay:
    """One method and split over the known text; ``growers`` has one per drafter."""

    known: KnownText
    method: Method
    split: str
    growers: tuple[Grower, ...]

    def tree(self, place: int, budget: int) -> DraftTree:
        """The tree that the drafters' trees for this budget combine to at a place."""
        shares = share_named(self.method, self.split)(budget, len(self.growers))
        trees = tuple(grower.grow(place, share) for grower, share in zip(self.growers, shares, strict=True))
        return COMBINERS[self.method.combine](trees, budget)

    def steps(self, budget: int, policy: BudgetPolicy | None = None) -> Iterator[Step]:
        """The rounds that write the text."""
        policy = policy or FixedBudget()
        place, size = 0, len(self.known.token_ids)
        while place < size:
            drafters, built = policy.opens(len(self.growers), budget)
            tree = policy.cut(self.tree(place, built) if drafters else bare(int(self.known.token_ids[place])))
            keep = agreed(self.known, place, tree)
            # the bonus token after the last one is unknown and not needed
            policy.learn(tree, Acceptance(keep, int(self.known.token_ids[min(place + len(keep), size - 1)])))
            yield Step(place, drafters, built, tree, keep)
            place += len(keep)

    def build_ms(self, budget: int, places: Sequence[int]) -> float:
        """The measured median milliseconds of building and combining one round's trees, at some of the places."""
        shares = share_named(self.method, self.split)(budget, len(self.growers))
        times = []
        for place in places[:TIMED_PLACES] if self.growers else ():
            began = perf_counter()
            trees = tuple(grower.build(place, share) for grower, share in zip(self.growers, shares, strict=True))
            COMBINERS[self.method.combine](trees, budget)
            times.append(1e3 * (perf_counter() - began))
        return float(np.median(times)) if times else 0.0


def agreed(known: KnownText, place: int, tree: DraftTree) -> Integers:
    """The nodes that a round keeps, (a,) int32: the longest path of the tree that the text follows, up to its end."""
    index = place + depths(tree.parents)
    inside = index < len(known.token_ids)
    tokens = known.token_ids[np.where(inside, index, place)]
    return longest_path(tree.parents, inside & (tree.tokens == tokens))


def replay(method: str, split: str, growers: Mapping[tuple[str, str], Grower], known: KnownText,
           drafters: Sequence[str]) -> Replay:
    """A method's replay over shared growers by (drafter, builder). RequestError where the method does not follow the
    text."""
    row = method_named(method)
    share_named(row, split)
    if not row.follows_text:
        raise RequestError(f"The method {method} accepts by its own draws ({row.accept}); a what-if needs a method "
                           "that follows the text.")
    return Replay(known, row, split, tuple(growers[drafter, row.build] for drafter in drafters))
