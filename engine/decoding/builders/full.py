"""The full tree of a depth and a width, in depth-first order (paper 003, "The Tree" and "Flattening the Tree")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.decoding.tree import bare, plant, select
from engine.records import DraftTree, Floats, Integers, Lattice

WIDTH = 2  # the paper's own; wider trees spend the budget on the first depth


@dataclass(frozen=True, eq=False)
class FullLevel:
    """The nodes of one depth, all (m,): their depth-first places, rows in the lattice, scores, tokens, parents."""

    places: Integers
    rows: Integers
    logprobs: Floats
    tokens: Integers
    parents: Integers


def full(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """The tree in which every node has the ``WIDTH`` most likely tokens as children, down to the same depth.

    The depth is the largest whose whole tree fits into ``nodes`` (2 + 4 + … for width 2) and into the lattice;
    what is left of the budget stays unspent. Where the lattice has one token a row, or the budget is 1, the width
    is 1: a chain. Nodes of probability 0 are left out. Depth-first order keeps a node's ancestors close before it.
    """
    width = min(WIDTH, lattice.tokens.shape[2], max(nodes, 1))
    depth = deepest(width, nodes, lattice.depth)
    if depth == 0:
        return bare(root)
    zero = np.zeros(1, np.int32)
    levels = [FullLevel(zero, zero, np.zeros(1, np.float32), zero, zero)]
    for step in range(depth):
        below = whole_size(width, depth - step - 1) + 1  # a child with its subtree
        levels.append(_grow(lattice, levels[-1], step, np.arange(width, dtype=np.int32), below))
    order = np.argsort(np.concatenate([level.places for level in levels[1:]]))
    tree = plant(
        root, np.concatenate([level.tokens for level in levels[1:]])[order],
        np.concatenate([level.parents for level in levels[1:]])[order],
        np.concatenate([level.logprobs for level in levels[1:]])[order])
    return select(tree, np.flatnonzero(np.isfinite(tree.logprobs)).astype(np.int32))


def whole_size(width: int, depth: int) -> int:
    """How many nodes a full tree has below its root: width + width² + … + width^depth."""
    return sum(width**level for level in range(1, depth + 1))


def deepest(width: int, nodes: int, limit: int) -> int:
    """The largest depth, ``limit`` at most, whose full tree has no more than ``nodes`` drafted nodes."""
    depth = 0
    while depth < limit and width > 0 and whole_size(width, depth + 1) <= nodes:
        depth += 1
    return depth


def _grow(lattice: Lattice, above: FullLevel, step: int, ranks: Integers, below: int) -> FullLevel:
    """All children of a level; ``below`` is the number of places that a child's own subtree takes."""
    cells = above.rows[:, None], ranks[None]
    return FullLevel(
        (above.places[:, None] + 1 + ranks * np.int32(below)).ravel(), lattice.follow[step][cells].ravel(),
        (above.logprobs[:, None] + lattice.logprobs[step][cells]).ravel(), lattice.tokens[step][cells].ravel(),
        above.places.repeat(len(ranks)))
