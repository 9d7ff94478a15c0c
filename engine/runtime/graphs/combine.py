"""Combiners in fixed shapes: they turn the drafters' trees into the one tree that is verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor

from engine.combiners.joint import FAINTEST, SURENESS
from engine.runtime.graphs.rows import depths_of, rounds_of_doubling
from engine.runtime.graphs.trees import PaddedTree, with_padding

Combine = Callable[[Sequence[PaddedTree], int], PaddedTree]  # (one tree per drafter, node budget) -> tree to verify


def confidence(tree: PaddedTree) -> Tensor:
    """μ: the mean of exp(−cost) over the drafted nodes, () float64; 0 where nothing was drafted."""
    mass = (-tree.costs[1:]).exp().sum().double()  # padding adds exp(−∞) = 0
    return mass / (tree.size - 1).clamp(min=1)


def only(trees: Sequence[PaddedTree], budget: int) -> PaddedTree:
    """The first tree, unchanged."""
    return trees[0]


def routed(trees: Sequence[PaddedTree], budget: int) -> PaddedTree:
    """The tree with the larger μ, the first among equals (paper 001, section 5)."""
    first, second = trees
    loses = confidence(second) > confidence(first)
    shifted = second._replace(drafters=second.drafters << 1)
    return PaddedTree(*(torch.where(loses, late, early) for early, late in zip(first, shifted, strict=True)))


def merged(trees: Sequence[PaddedTree], budget: int) -> PaddedTree:
    """Both trees as disjoint subtrees under one root (paper 000, section 3.1), followed by the padding of both."""
    first, second = trees
    shift = len(first.tokens) - 1
    parents = torch.where(second.parents > 0, second.parents + shift, 0)[1:]
    whole = PaddedTree(
        torch.cat([first.tokens, second.tokens[1:]]), torch.cat([first.parents, parents]),
        torch.cat([first.costs, second.costs[1:]]), torch.cat([first.drafters, second.drafters[1:] << 1]), first.size)
    return chosen(whole, whole.costs.isinf().int().argsort(stable=True))


def chosen(tree: PaddedTree, rows: Tensor) -> PaddedTree:
    """The tree of these rows (n,) int64, in this order: parents come before children, rows of cost ∞ last."""
    places = torch.zeros_like(tree.tokens).scatter_(0, rows, torch.arange(len(rows), device=rows.device))
    parents = places[tree.parents[rows]]
    return with_padding(PaddedTree(tree.tokens[rows], parents, tree.costs[rows], tree.drafters[rows], tree.size))


def twins(first: PaddedTree, second: PaddedTree) -> Tensor:
    """Which nodes are the same prefix, (rows of first, rows of second) bool: equal tokens at every step to the root."""
    alike = first.tokens[:, None] == second.tokens
    alike &= ~(first.costs.isinf()[:, None] | second.costs.isinf())
    alike[0].zero_()
    alike[:, 0].zero_()
    alike[0, 0].fill_(True)
    above, beside = first.parents, second.parents
    for _ in range(rounds_of_doubling(max(alike.shape) - 1)):
        alike = alike & alike.index_select(0, above).index_select(1, beside)
        above, beside = above[above], beside[beside]
    return alike


def weights(trees: Sequence[PaddedTree]) -> Tensor:
    """The log weight of each drafter in the mixture, (drafters,) float64."""
    loudness = SURENESS * torch.stack([confidence(tree) for tree in trees]).clamp(min=FAINTEST).log()
    return loudness - loudness.logsumexp(0)


def joint(trees: Sequence[PaddedTree], budget: int) -> PaddedTree:
    """The ``budget`` best nodes of the union: by mixture probability, then depth, then the drafters' own order."""
    return mixed(trees, budget, weights(trees))


def mixed(trees: Sequence[PaddedTree], budget: int, loudness: Tensor) -> PaddedTree:
    """``joint`` with given log weights of the drafters, (2,) float64."""
    union = _union(trees, loudness)
    by_depth = depths_of(union.parents).argsort(stable=True)
    order = by_depth[union.costs[by_depth].sort(stable=True).indices]
    return chosen(union, order[:budget + 1])


def _union(trees: Sequence[PaddedTree], loudness: Tensor) -> PaddedTree:
    """All nodes of the first drafter, then all of the second, not sorted by cost. A node that both propose keeps its
    row in the first part; its row in the second has cost ∞."""
    first, second = trees
    alike = twins(first, second)
    doubled, double = alike.any(1), alike.int().argmax(1)
    known, place = alike.any(0), alike.int().argmax(0)
    own, other = (weight - tree.costs.double() for weight, tree in zip(loudness, trees, strict=True))
    both = torch.logaddexp(own, torch.where(doubled, other[double], -torch.inf))
    costs = torch.cat([both, other.masked_fill(known, -torch.inf)]).float().clamp(max=0).abs()
    costs[0].zero_()
    places = torch.where(known, place, torch.arange(len(known), device=known.device) + len(first.tokens))
    drafters = torch.cat([first.drafters + 2 * doubled, 2 * second.drafters])
    drafters[0].zero_()
    return PaddedTree(torch.cat([first.tokens, second.tokens]), torch.cat([first.parents, places[second.parents]]),
                     costs, drafters, first.size)


COMBINE: Mapping[str, Combine] = MappingProxyType({"only": only, "routed": routed, "merged": merged, "joint": joint})
