"""Combiners: each turns the drafters' trees into the one tree to verify, within a node budget."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

import numpy as np

from engine.decoding.tree import select
from engine.records import DraftTree

Combiner = Callable[[tuple[DraftTree, ...], int], DraftTree]  # (one tree per drafter, node budget) -> tree to verify

# The power of μ that ``joint`` weighs a drafter by. On 60 mixed texts of the training split, budget 64, routed reached
# τ 7.96; the better drafter's score 7.90, mixtures with powers 0, 1, 2, 3, 4 and 6 of μ 7.89, 7.93, 7.98, 8.01, 8.04
# and 8.02.
CONFIDENCE_POWER = 4
MIN_CONFIDENCE = 1e-30  # the least μ, so that every drafter has some weight


def only(trees: tuple[DraftTree, ...], budget: int) -> DraftTree:
    """Return the first tree: for methods with one drafter."""
    return trees[0]


def routed(trees: tuple[DraftTree, ...], budget: int) -> DraftTree:
    """Return the tree with the larger mean node confidence μ, the first among equals (paper 001, section 5);
    ``drafters`` keeps the winner's bit."""
    scores = [tree.confidence for tree in trees]
    winner = scores.index(max(scores))
    return replace(trees[winner], drafters=trees[winner].drafters << winner)


def merged(trees: tuple[DraftTree, ...], budget: int) -> DraftTree:
    """Return the tree of all drafters' nodes below one shared root (paper 000, sections 3.1 and 4.1): those of drafter
    1, then those of drafter 2, and so on.

    φ shifts a later drafter's nodes by the number of nodes before them and leaves the root where it is: φ(0) = 0,
    φ(i) = n₁ + i, and π∪(φ(i)) = φ(π(i)). A prefix that two drafters propose is there twice; ``joint`` has it once.
    """
    shifts = list(accumulate((len(tree) - 1 for tree in trees), initial=0))
    parents = [np.where(tree.parents > 0, tree.parents + np.int32(shift), np.int32(0))
               for tree, shift in zip(trees, shifts, strict=False)]
    drafters = [tree.drafters << drafter for drafter, tree in enumerate(trees)]
    columns = ([tree.tokens for tree in trees], parents, [tree.logprobs for tree in trees], drafters)
    return DraftTree(*(np.concatenate([first, *(array[1:] for array in others)]) for first, *others in columns))


def joint(trees: tuple[DraftTree, ...], budget: int) -> DraftTree:
    """Return the ``budget`` best nodes of all drafters' prefixes, each once: by log probability, then depth, then the
    drafters' own order.

    A prefix is scored by a mixture of the drafters' probabilities, weighted by a power of their μ, the score that
    routing uses, so that confident drafters count more; a drafter that does not propose the prefix gives it none. A
    score falls along each drafter's own paths, and a drafter that proposes a node proposes its parent, so a node's
    score is no better than its parent's: the best nodes of the union, the shallower first among equals, are a tree.
    ``drafters`` has the bit of every drafter that proposes a node.
    """
    tokens, parents, depths, proposed_by = [int(trees[0].tokens[0])], [0], [0], [0]
    node_of: dict[tuple[int, int], int] = {}  # of the union, by parent and token
    nodes_of_trees = []  # for each tree, its nodes' numbers in the union
    for drafter, tree in enumerate(trees):
        nodes = [0]
        for token, parent in zip(tree.tokens[1:].tolist(), tree.parents[1:].tolist(), strict=True):
            above = nodes[parent]
            node = node_of.setdefault((above, token), len(tokens))
            nodes.append(node)
            if node == len(tokens):
                tokens.append(token)
                parents.append(above)
                depths.append(depths[above] + 1)
                proposed_by.append(0)
            proposed_by[node] |= 1 << drafter
        nodes_of_trees.append(nodes)
    weights = CONFIDENCE_POWER * np.log([max(tree.confidence, MIN_CONFIDENCE) for tree in trees])
    weights -= np.logaddexp.reduce(weights)
    scores = np.full((len(trees), len(tokens)), -np.inf)
    for row, nodes, tree, weight in zip(scores, nodes_of_trees, trees, weights, strict=True):
        np.maximum.at(row, nodes, weight + tree.logprobs)
    mixture = np.logaddexp.reduce(scores, axis=0).astype(np.float32)
    mixture[0] = 0
    union = DraftTree(np.asarray(tokens, np.int32), np.asarray(parents, np.int32), np.minimum(mixture, 0),
                      np.asarray(proposed_by, np.int32))
    # the root, at log probability 0 and depth 0, always comes first
    order = np.lexsort((np.asarray(depths, np.int32), -union.logprobs))[:budget + 1]
    return select(union, order.astype(np.int32))
