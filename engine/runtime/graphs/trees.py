"""Draft trees in fixed shapes, and the two builders that run on the device: exact best-first search and the chain."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from engine.builders.best_first import marginal_pairs
from engine.drafters.dflash.marginals import likeliest_tokens


class PaddedTree(NamedTuple):
    """A draft tree with padding: tokens, parents, drafters (rows,) int64; costs (rows,) float32, the cumulative −log
    probabilities; size () int64.

    The first ``size`` rows are the nodes of a ``DraftTree``, in its order. The others are padding: token 0, drafters 0,
    cost ∞, each its own parent.
    """

    tokens: Tensor
    parents: Tensor
    costs: Tensor
    drafters: Tensor
    size: Tensor


class Marginals(NamedTuple):
    """A drafter's block as a lattice of one row per depth: tokens (depth, width) int64 and logprobs (depth, width)
    float32, in descending order and normalised over the whole vocabulary."""

    tokens: Tensor
    logprobs: Tensor

    def costs(self, deepest: Tensor) -> Tensor:
        """−log probabilities (depth, width) float32, with ∞ at depths of index ``deepest`` () int64 and beyond."""
        depths = torch.arange(len(self.logprobs), device=self.logprobs.device)[:, None]
        return self.logprobs.abs().masked_fill(depths >= deepest, torch.inf)


def marginals(logits: Tensor, width: int) -> Marginals:
    """The ``width`` likeliest tokens of each row of logits (depth, vocabulary), in any float dtype."""
    logprobs, tokens = likeliest_tokens(logits, width)
    return Marginals(tokens, logprobs)


def padded_tree(root: Tensor, tokens: Tensor, parents: Tensor, costs: Tensor, nodes: int) -> PaddedTree:
    """A tree of 1 + ``nodes`` rows by one drafter: ``root`` () int64, then at most ``nodes`` drafted nodes in order,
    those of cost ∞ last. tokens, parents (n,) int64, costs (n,) float32."""
    zero, missing = root.new_zeros(1), nodes - len(tokens)
    return with_padding(PaddedTree(
        torch.cat([root[None], pad(tokens, (0, missing))]), torch.cat([zero, pad(parents, (0, missing))]),
        torch.cat([costs.new_zeros(1), pad(costs, (0, missing), value=torch.inf)]),
        torch.cat([zero, tokens.new_ones(nodes)]), zero[0]))


def with_padding(tree: PaddedTree) -> PaddedTree:
    """The tree with every row of cost ∞ turned into padding and its size counted; such rows must come last."""
    padding = tree.costs.isinf()
    rows = torch.arange(len(tree.tokens), device=tree.tokens.device)
    return PaddedTree(
        tree.tokens.masked_fill(padding, 0), torch.where(padding, rows, tree.parents), tree.costs,
        tree.drafters.masked_fill(padding, 0), (~padding).sum())


class BestFirst:
    """``builders.best_first`` for a fixed number of nodes, width and depth (paper 002, Algorithm 1).

    Which ranks of parents and children can be among the best nodes is known beforehand: each depth is one gather over
    these fixed pairs and one stable sort, so that ties keep the order of the nodes.
    """

    def __init__(self, nodes: int, width: int, depth: int, device: torch.device) -> None:
        pairs = marginal_pairs(nodes, width)
        self.nodes = nodes
        self.levels = [min(nodes, width)]
        self.pairs = [0]
        while len(self.levels) < depth:
            self.pairs.append(pairs.ends[min(self.levels[-1], len(pairs.ends) - 1)])
            self.levels.append(min(self.pairs[-1], nodes))
        self.parents, self.ranks = (torch.from_numpy(each).to(device) for each in (pairs.parents, pairs.ranks))
        depths = np.arange(depth).repeat(self.levels)
        places = np.asarray([0, *accumulate(self.levels, initial=1)])  # of the first node of the level above
        self.depths, self.above = (torch.from_numpy(each).to(device) for each in (depths, places[depths]))

    def __call__(self, root: Tensor, tokens: Tensor, costs: Tensor) -> PaddedTree:
        """The best tree of a lattice below ``root`` () int64: tokens (depth, width) int64; costs (depth, width)
        float32, ≥ 0 and ascending."""
        children = costs.index_select(1, self.ranks)
        reached, orders = [costs[0, :self.levels[0]]], []
        for depth in range(1, len(self.levels)):
            count = self.pairs[depth]
            totals = reached[-1].index_select(0, self.parents[:count]) + children[depth, :count]
            ordered, order = totals.sort(stable=True)
            reached.append(ordered[:self.levels[depth]])
            orders.append(order[:self.levels[depth]])
        return self._assembled(root, tokens, torch.cat(reached), torch.cat([root.new_zeros(0), *orders]))

    def _assembled(self, root: Tensor, tokens: Tensor, reached: Tensor, below: Tensor) -> PaddedTree:
        """The best of all levels' nodes. ``reached`` are their costs, level by level; ``below`` are the pairs of all
        nodes after the first level."""
        first = self.levels[0]
        ranks = torch.cat([torch.arange(first, device=below.device), self.ranks.index_select(0, below)])
        parents = torch.cat([below.new_zeros(first), self.parents.index_select(0, below)]) + self.above
        ordered, order = reached.sort(stable=True)
        ordered, order = ordered[:self.nodes], order[:self.nodes]
        places = below.new_zeros(len(reached) + 1).scatter_(
            0, order + 1, torch.arange(1, len(order) + 1, device=below.device))
        chosen = tokens[self.depths[order], ranks[order]]
        return padded_tree(root, chosen, places[parents[order]], ordered, self.nodes)


class Chain:
    """``builders.chain``: the likeliest token of each depth, to the first of cost ∞."""

    def __init__(self, nodes: int, depth: int) -> None:
        self.nodes = min(nodes, depth)

    def __call__(self, root: Tensor, tokens: Tensor, costs: Tensor) -> PaddedTree:
        """See ``BestFirst``. Costs are added one after the other in float32, as numpy's cumulative sum does."""
        totals = list(accumulate(costs[:self.nodes, 0].unbind()))
        rows = torch.arange(self.nodes, device=tokens.device)
        return padded_tree(root, tokens[:self.nodes, 0], rows, torch.stack(totals) if totals else costs.new_zeros(0),
                       self.nodes)
