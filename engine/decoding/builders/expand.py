"""The tree of a drafter that runs once per depth: the best nodes of each depth are expanded, and the best of all
proposals are kept (the expansion and re-ranking that papers 000 and 001 take from EAGLE-2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.decoding.tree import plant
from engine.records import DraftTree, Floats, Integers, Lattice

WIDEST = 10  # expanded nodes per depth, and children of each; the published setting


@dataclass(frozen=True, eq=False)
class DepthProposals:
    """Every child that one depth offers, all (m,): scores cumulative from the root, tokens, the row that each reads
    its own children in, and its parent's place. Places count the depths' proposals through; the root's is 0."""

    scores: Floats
    tokens: Integers
    rows: Integers
    parents: NDArray[np.intp]


def expand(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """The tree of the ``nodes`` best proposals, with ``WIDEST`` expanded nodes per depth of ``WIDEST`` children each.

    Unlike in ``best_first``, a node outside the best of its depth has no children, however good they would be: the
    price of a drafter that needs another pass for each depth. Order, and so the choice among equals: by log
    probability, descending; then the shallower; then the parent's own order; then the rank. Proposals of
    probability 0 are never drafted.
    """
    if nodes == 0 or lattice.tokens.size == 0:
        return plant(root, *(np.zeros(0, np.int32),) * 2, np.zeros(0, np.float32))
    zero = np.zeros(1, np.int32)
    level, first = DepthProposals(np.zeros(1, np.float32), zero, zero, np.zeros(1, np.intp)), 0
    levels: list[DepthProposals] = []
    for depth in range(lattice.depth):
        below = _proposals(lattice, depth, level, first)
        first += len(level.scores)
        level = below
        if len(level.scores) == 0:
            break
        levels.append(level)
    return _best(root, levels, nodes)


def _proposals(lattice: Lattice, depth: int, above: DepthProposals, first: int) -> DepthProposals:
    """The children of the best nodes above, whose places begin at ``first``; those of probability 0 left out."""
    best = (-above.scores).argsort(kind="stable")[:WIDEST]
    rows = above.rows[best]
    scores = above.scores[best, None] + lattice.logprobs[depth, rows, :WIDEST]
    alive = np.isfinite(scores)
    parents = np.broadcast_to((best + first)[:, None], scores.shape)
    return DepthProposals(scores[alive], lattice.tokens[depth, rows, :WIDEST][alive],
                     lattice.follow[depth, rows, :WIDEST][alive], parents[alive])


def _best(root: int, levels: list[DepthProposals], nodes: int) -> DraftTree:
    """The tree of the best of all depths. A parent scores no less than its children and precedes them, so it is in."""
    if not levels:
        return plant(root, *(np.zeros(0, np.int32),) * 2, np.zeros(0, np.float32))
    scores = np.concatenate([level.scores for level in levels])
    order = (-scores).argsort(kind="stable")[:nodes]
    places = np.zeros(len(scores) + 1, np.int32)
    places[order + 1] = np.arange(1, len(order) + 1, dtype=np.int32)
    parents = np.concatenate([level.parents for level in levels])[order]
    return plant(root, np.concatenate([level.tokens for level in levels])[order], places[parents], scores[order])
