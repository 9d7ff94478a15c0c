"""One round as steps that read and write a board of tensors; none of them copies a number to the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from engine.methods import Method
from engine.records import Sampling
from engine.runtime.graphs.combine import COMBINE
from engine.runtime.graphs.passes import GraphDrafter, GraphTarget
from engine.runtime.graphs.rows import KeptRows, PaddedRows, TextEnd, kept, packed
from engine.runtime.graphs.trees import BestFirst, Chain, Marginals, PaddedTree, padded_tree
from engine.runtime.target.passes import PassOutput
from engine.runtime.target.sampling import choices, statistics

Build = Callable[[Tensor, Tensor, Tensor], PaddedTree]  # (root, tokens, costs) -> tree of one drafter
Accept = Callable[[PaddedTree, PaddedRows, Tensor], Tensor]  # (tree, rows, choices) -> accepted rows, (rows,) bool


def best_first(nodes: int, width: int, depth: int, device: torch.device) -> Build:
    """The builder of ``best_first`` trees."""
    return BestFirst(nodes, width, depth, device)


def chain(nodes: int, width: int, depth: int, device: torch.device) -> Build:
    """The builder of chains; their width is 1, and they need no table on the device."""
    return Chain(nodes, depth)


BUILD: Mapping[str, Callable[[int, int, int, torch.device], Build]] = MappingProxyType(
    {"best_first": best_first, "chain": chain})


def agreed(tree: PaddedTree, rows: PaddedRows, choice: Tensor) -> Tensor:
    """Which rows hold the target's choice at their parent, (rows,) bool: ``acceptance.walk``."""
    return tree.tokens == choice[tree.parents]


@dataclass(frozen=True)
class RoundSetting:
    """What a CUDA-graph round is made for: the method's row, the request's numbers, and the target's context limit."""

    method: Method
    budget: int
    shares: tuple[int, ...]
    sampling: Sampling
    stop_ids: tuple[int, ...]
    context_limit: int

    @property
    def width(self) -> int:
        """How many tokens of each depth's marginal a drafter returns."""
        return max(self.budget, 1)


class Board:
    """Where the text stands, and the results of the current round's steps.

    ``state`` (3,) int64 holds the prefix length, the root's token, and how many tokens are left to write; ``draws``
    (positions,) float64 holds each position's uniform number. ``ended`` is ``state`` as it was before ``advance``.
    """

    lattices: tuple[Marginals, ...]
    candidates: tuple[PaddedTree, ...]
    tree: PaddedTree
    rows: PaddedRows
    output: PassOutput
    choice: Tensor
    statistics: Tensor
    kept: KeptRows
    ended: Tensor

    def __init__(self, context_limit: int, device: torch.device) -> None:
        self.state = torch.zeros(3, dtype=torch.int64, device=device)
        self.draws = torch.zeros(context_limit + 1, dtype=torch.float64, device=device)

    @property
    def length(self) -> Tensor:
        """The number of committed positions, () int64."""
        return self.state[0]

    @property
    def root(self) -> Tensor:
        """The root's token, () int64."""
        return self.state[1]


class GraphRound:
    """The steps of a round for one setting. Each takes ``bucket``: how many slots of the caches count as prefix."""

    def __init__(self, setting: RoundSetting, target: GraphTarget, drafters: Sequence[GraphDrafter],
                 accept: Accept = agreed) -> None:
        self.setting, self.target, self.drafters, self.accept_rows = setting, target, tuple(drafters), accept
        device = target.slots.device
        self.board = Board(setting.context_limit, device)
        make, width = BUILD[setting.method.build], setting.width
        vocabulary = target.fused.head.weight.shape[0]
        self.builds = [make(nodes, min(width, vocabulary), drafter.depth, device)
                       for drafter, nodes in zip(self.drafters, setting.shares, strict=True)]
        self.combine = COMBINE[setting.method.combine]
        self.stop_ids = torch.tensor(setting.stop_ids, dtype=torch.int64, device=device)
        self.deepest = deepest(setting, [drafter.depth for drafter in drafters])

    @property
    def steps(self) -> list[tuple[str, Callable[[int], None]]]:
        """Each step with the stage that its time counts towards. Made anew each time: a list of bound methods kept on
        the round would be a reference cycle, and its tensors would outlive their last use."""
        return [("draft", self.draft), ("build", self.build), ("pack", self.pack), ("verify", self.verify),
                ("verify", self.choose), ("accept", self.accept), ("keep", self.keep), ("draft", self.observe),
                ("keep", self.advance)]

    def run(self, bucket: int) -> None:
        """Run all steps in order."""
        for _, step in self.steps:
            step(bucket)

    def draft(self, bucket: int) -> None:
        """Compute each drafter's marginals."""
        on = self.board
        on.lattices = tuple(drafter.draft(on.root, on.length, bucket, self.setting.width) for drafter in self.drafters)

    def build(self, bucket: int) -> None:
        """Build each drafter's tree, and combine them into the one that is verified."""
        on = self.board
        room = self.setting.context_limit - 1 - on.length
        on.candidates = tuple(build(on.root, lattice.tokens, lattice.costs(room))
                              for build, lattice in zip(self.builds, on.lattices, strict=True))
        on.tree = self.combine(on.candidates, self.setting.budget) if on.candidates else bare(on.root, on.draws)

    def pack(self, bucket: int) -> None:
        """Lay out the tree's rows: their depths, and which rows each of them sees."""
        self.board.rows = packed(self.board.tree, self.deepest)

    def verify(self, bucket: int) -> None:
        """Run the target's forward pass over the rows."""
        on = self.board
        on.output = self.target.verify(on.tree.tokens, on.rows.depths, on.rows.seen, on.length, bucket)

    def choose(self, bucket: int) -> None:
        """Choose the target's token at each node, and compute the statistics of each."""
        on = self.board
        logits = on.output.logits.float()
        on.choice, left = choices(logits, self.setting.sampling, on.draws[on.length + on.rows.depths + 1])
        on.statistics = statistics(logits, on.choice, left, on.tree.tokens, on.tree.parents)

    def accept(self, bucket: int) -> None:
        """Find the accepted path, cut where the text ends."""
        on = self.board
        on.kept = kept(on.tree, on.rows, on.choice, self.accept_rows(on.tree, on.rows, on.choice),
                       TextEnd(self.stop_ids, on.state[2], self.deepest))

    def keep(self, bucket: int) -> None:
        """Move the kept rows' slots after the prefix; those past ``count`` stay hidden there."""
        self.target.keep(self.board.kept.keep, self.board.length, bucket)

    def observe(self, bucket: int) -> None:
        """Let the drafters read the kept rows' features."""
        on = self.board
        positions = on.length + torch.arange(len(on.kept.keep), device=on.state.device)
        if self.drafters:
            features = on.output.tapped.index_select(0, on.kept.keep)
        for drafter in self.drafters:
            drafter.observe(features, positions)

    def advance(self, bucket: int) -> None:
        """Set the prefix length, the root and the tokens left for the next round."""
        on = self.board
        on.ended = on.state.clone()
        count = on.kept.count
        on.state.copy_(torch.stack([on.length + count, on.kept.bonus, on.state[2] - count]))


def bare(root: Tensor, like: Tensor) -> PaddedTree:
    """The tree without drafted nodes: the root () alone; costs are on the device of ``like``."""
    none = root.new_zeros(0)
    return padded_tree(root, none, none, like.new_zeros(0, dtype=torch.float32), 0)


def deepest(setting: RoundSetting, depths: Sequence[int]) -> int:
    """The greatest depth that the verified tree can have."""
    return max((min(depth, nodes) for depth, nodes in zip(depths, setting.shares, strict=True)), default=0)
