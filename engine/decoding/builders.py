"""Builders: each makes a draft tree of a given number of nodes from a lattice.

``chain`` is what a block-diffusion drafter proposes without a tree (DFlash). ``best_first`` takes the most probable
prefixes: the exact result of paper 002, Algorithm 1. ``expand`` is the tree of a drafter that runs once per depth: the
best nodes of each depth are expanded, and the best of all proposals are kept (the expansion and re-ranking that papers
000 and 001 take from EAGLE-2). ``full`` is the whole tree of a depth and a width (paper 003, "The Tree").

Best-first trees that are small and over marginals come from the paper's heap: for some dozens of nodes it takes half
the time of the search by levels, in which every step is a call to numpy; for some hundreds it takes longer. Large trees
come level by level. Sort the nodes of a depth, best first: the j-th child of the i-th node can be among the best B
prefixes only if all that surely precede it leave room. With one row per depth these are the (i + 1)(j + 1) pairs up to
it and the i + 1 parents, so (i + 1)(j + 2) ≤ B with i and j from 0; with a row per path, only the i + 1 parents and the
j + 1 siblings up to it, so i + j + 2 ≤ B. Either set of pairs depends only on B and the width.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush, heapreplace
from math import inf

import numpy as np
from numpy.typing import NDArray

from engine.decoding.tree import from_nodes, root_only
from engine.records import DraftTree, Floats, Integers, Lattice

Builder = Callable[[Lattice, int, int], DraftTree]  # (lattice, root token, drafted nodes) -> tree of one drafter

MIN_SCORE = np.finfo(np.float32).min  # only −inf, a prefix of probability 0, is lower
MAX_HEAP_NODES = 192  # over marginals the heap is faster up to this size
FIRST_RANKS = 8  # of a depth, converted to Python floats first; most trees need no more
SAMPLES_PER_NODE = 4  # prefixes that the first bound scores, per node of the budget
EXPAND_WIDTH = 10  # nodes that ``expand`` expands per depth, and children of each: EAGLE-2's setting
FULL_WIDTH = 2  # of ``full``: the paper's own; wider trees spend the budget on the first depth

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of parent and rank that can matter, parents ascending: parents, ranks (p,) int64; the first ``ends[m]``
    of them belong to the first m parents."""

    parents: Indices
    ranks: Indices
    ends: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class SearchLevel:
    """The nodes of one depth that may be in the tree, all (m,): scores cumulative from the root, tokens, the row that
    each reads its children in, and its parent. Nodes of all levels are numbered in order, the root is 0, and ``first``
    is the number of the first one here."""

    scores: Floats
    tokens: Integers
    rows: Integers
    parents: Indices
    first: int


def chain(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """The tree of the most likely token of each depth, in the row that the one before leads to.

    min(nodes, depth) drafted nodes, fewer if the most likely token has probability 0; the root alone for none.
    """
    tokens, steps = best_cells(lattice)
    logprobs = steps[:nodes].cumsum(dtype=np.float32)
    length = int(np.isfinite(logprobs).sum())
    return from_nodes(root, tokens[:length], np.arange(length, dtype=np.int32), logprobs[:length])


def best_cells(lattice: Lattice) -> tuple[Integers, Floats]:
    """Tokens and log probabilities of the rank-1 chain, (depth,) each."""
    cells = np.arange(lattice.depth), best_rows(lattice), 0
    return lattice.tokens[cells], lattice.logprobs[cells]


def best_rows(lattice: Lattice) -> Integers:
    """The row that the rank-1 chain reads at each depth: (depth,) int32."""
    rows = np.zeros(lattice.depth, np.int32)
    if lattice.tokens.shape[1] > 1:
        for depth in range(1, lattice.depth):
            rows[depth] = lattice.follow[depth - 1, rows[depth - 1], 0]
    return rows


def best_first(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """The ``nodes`` prefixes with the largest float32 log probability, summed from the root on.

    Order, and so the choice among equals: by log probability, descending; then the shallower; then the parent's
    own order; then the rank. Parents therefore come before children. Prefixes of probability 0 are never drafted;
    if there are fewer than ``nodes`` others, all of them are. Expects logprobs ≤ 0, descending along k.
    """
    if nodes == 0 or lattice.tokens.size == 0:
        return root_only(root)
    if lattice.tokens.shape[1] == 1 and nodes <= MAX_HEAP_NODES:
        return from_heap(lattice, root, nodes)
    return by_levels(lattice, root, nodes)


def from_heap(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """See ``best_first``, for a lattice of one row per depth. A heap entry is (cost, depth, parent, rank),
    where cost is the negative sum of log probabilities, so the heap's order is the order of the tree, ties included.

    An entry that leaves the heap is replaced by its next sibling and its own first child.
    """
    width, deepest = lattice.tokens.shape[2], lattice.depth
    costs = (-lattice.logprobs[:, 0, :FIRST_RANKS]).tolist()
    single = array("f", [0.0])  # rounds a sum to float32: exact, since float64 holds more than twice the bits
    costs_so_far, parents, cells = [0.0], [0], [0]
    heap = [(costs[0][0], 0, 0, 0)]
    while heap and len(costs_so_far) <= nodes:
        cost, depth, parent, rank = heap[0]
        if cost == inf:
            break
        node, siblings = len(costs_so_far), costs[depth]
        costs_so_far.append(cost)
        parents.append(parent)
        cells.append(depth * width + rank)
        rank += 1
        if rank == len(siblings) < width:
            siblings += (-lattice.logprobs[depth, 0, FIRST_RANKS:]).tolist()
        if rank < width:
            single[0] = costs_so_far[parent] + siblings[rank]
            heapreplace(heap, (single[0], depth, parent, rank))
        else:
            heappop(heap)
        depth += 1
        if depth < deepest:
            single[0] = cost + costs[depth][0]
            heappush(heap, (single[0], depth, node, 0))
    tokens, drafters = lattice.tokens.ravel().take(cells), np.ones(len(costs_so_far), np.int32)
    tokens[0], drafters[0] = root, 0
    return DraftTree(tokens, np.asarray(parents, np.int32), 0 - np.asarray(costs_so_far, np.float32), drafters)


def by_levels(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """See ``best_first``; a lattice with tokens, and one node or more."""
    least = lower_bound(lattice, nodes)
    width = lattice.tokens.shape[2]
    pairs = pairs_of(nodes, width, row_per_path=lattice.tokens.shape[1] > 1)
    count = int(np.count_nonzero(lattice.logprobs[0, 0, :nodes] >= least))
    levels = [SearchLevel(lattice.logprobs[0, 0, :count], lattice.tokens[0, 0, :count], lattice.follow[0, 0, :count],
                          np.zeros(count, np.intp), 1)]
    for depth in range(1, lattice.depth):
        below = _children(lattice, depth, levels[-1], pairs, least)
        if len(below.scores) == 0:
            break
        levels.append(below)
        if len(below.scores) > nodes // 8:
            least = _raised(least, levels, nodes)
    return best_of(root, levels, nodes)


def _children(lattice: Lattice, depth: int, above: SearchLevel, pairs: Pairs, least: np.float32) -> SearchLevel:
    """The level below ``above``: its children that may be in the tree, none with a score below ``least``."""
    end = pairs.ends[min(len(above.scores), len(pairs.ends) - 1)]
    parents, cells = pairs.parents[:end], pairs.ranks[:end]
    if lattice.tokens.shape[1] > 1:
        cells = cells + above.rows.take(parents) * lattice.tokens.shape[2]
    scores = above.scores.take(parents)
    scores += lattice.logprobs[depth].take(cells)
    alive = np.flatnonzero(scores >= least)
    scores = scores.take(alive)
    order = (-scores).argsort(kind="stable")
    best = alive.take(order)
    cells = cells.take(best)
    return SearchLevel(scores.take(order), lattice.tokens[depth].take(cells), lattice.follow[depth].take(cells),
                       parents.take(best) + above.first, above.first + len(above.scores))


def best_of(root: int, levels: list[SearchLevel], nodes: int) -> DraftTree:
    """The tree of the best ``nodes`` of all levels, one or more. A parent scores no less than its children and precedes
    them, so it is in; a stable sort keeps the order among equals."""
    scores = np.concatenate([level.scores for level in levels])
    order = (-scores).argsort(kind="stable")[:nodes]
    renumbered = np.zeros(len(scores) + 1, np.int32)
    renumbered[order + 1] = np.arange(1, len(order) + 1, dtype=np.int32)
    parents = np.concatenate([level.parents for level in levels]).take(order)
    tokens = np.concatenate([level.tokens for level in levels]).take(order)
    return from_nodes(root, tokens, renumbered.take(parents), scores.take(order))


def _raised(least: np.float32, levels: list[SearchLevel], nodes: int) -> np.float32:
    """The raised bound after these levels, computed only if a level is wide enough to be worth it."""
    scores = np.concatenate([level.scores for level in levels])
    if len(scores) < nodes:
        return least
    scores.partition(len(scores) - nodes)
    return max(least, scores[len(scores) - nodes])


def lower_bound(lattice: Lattice, nodes: int) -> np.float32:
    """A score that each of the best ``nodes`` prefixes reaches, so that any prefix below it can be ignored.

    The ``nodes``-th best among some prefixes is such a score; here the most likely chain's and their siblings'.
    """
    depth, _, width = lattice.tokens.shape
    columns = min(width, -(-SAMPLES_PER_NODE * nodes // depth))
    if depth * columns < nodes:
        return MIN_SCORE
    siblings = lattice.logprobs[np.arange(depth), best_rows(lattice), :columns]
    siblings[1:] += siblings[:, 0].cumsum()[:-1, None]
    flat = siblings.ravel()
    flat.partition(flat.size - nodes)
    return max(flat[flat.size - nodes], MIN_SCORE)


@lru_cache(maxsize=128)
def pairs_of(nodes: int, width: int, row_per_path: bool) -> Pairs:
    """The pairs (i, j) with j < width that can matter among the best ``nodes``; see the module's docstring."""
    parents = np.arange(nodes, dtype=np.intp)
    children = np.minimum(nodes - 1 - parents if row_per_path else nodes // (parents + 1) - 1, width)
    ends = np.concatenate([np.zeros(1, np.intp), children.cumsum()])
    parents = parents.repeat(children)
    return Pairs(parents, np.arange(len(parents)) - ends[parents], tuple(ends.tolist()))


def expand(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """The tree of the ``nodes`` best proposals, with ``EXPAND_WIDTH`` nodes of a depth expanded, as many children each.

    Unlike in ``best_first``, a node outside the best of its depth has no children, however good they would be: the
    price of a drafter that needs another pass for each depth. Order, and so the choice among equals: by log
    probability, descending; then the shallower; then the parent's own order; then the rank. Proposals of
    probability 0 are never drafted.
    """
    zero = np.zeros(1, np.int32)
    levels = [SearchLevel(np.zeros(1, np.float32), zero, zero, np.zeros(1, np.intp), 0)]  # the root
    for depth in range(lattice.depth):
        above = levels[-1]
        best = (-above.scores).argsort(kind="stable")[:EXPAND_WIDTH]
        rows = above.rows[best]
        scores = above.scores[best, None] + lattice.logprobs[depth, rows, :EXPAND_WIDTH]
        alive = np.isfinite(scores)
        if not alive.any():
            break
        parents = np.broadcast_to((best + above.first)[:, None], scores.shape)
        tokens, follow = (part[depth, rows, :EXPAND_WIDTH][alive] for part in (lattice.tokens, lattice.follow))
        levels.append(SearchLevel(scores[alive], tokens, follow, parents[alive], above.first + len(above.scores)))
    return best_of(root, levels[1:], nodes) if nodes and len(levels) > 1 else root_only(root)


def full(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """The tree in which every node has the ``FULL_WIDTH`` most likely tokens as children, down to the same depth.

    The depth is the largest whose whole tree fits into ``nodes`` (2 + 4 + … for width 2) and into the lattice; what is
    left of the budget stays unspent. If the lattice has one token a row, or the budget is 1, the width is 1: a
    chain. Nodes of probability 0 are left out. Depth-first order keeps a node's ancestors close before it.
    """
    width = min(FULL_WIDTH, lattice.tokens.shape[2], max(nodes, 1))
    deepest, size = 0, width  # size: of the whole tree that is one deeper
    while deepest < lattice.depth and 0 < size <= nodes:
        deepest, size = deepest + 1, width + width * size
    rows, logprobs, follow = (part[:deepest, :, :width].tolist()
                              for part in (lattice.tokens, lattice.logprobs, lattice.follow))
    tokens, parents, scores = [root], [0], [np.float32(0)]

    def grow(depth: int, row: int, parent: int) -> None:
        for rank in range(width):
            score = np.float32(scores[parent] + logprobs[depth][row][rank])
            if score >= MIN_SCORE:
                node = len(tokens)
                tokens.append(rows[depth][row][rank])
                parents.append(parent)
                scores.append(score)
                if depth + 1 < deepest:
                    grow(depth + 1, follow[depth][row][rank], node)
    if deepest:
        grow(0, 0, 0)
    return from_nodes(root, np.asarray(tokens[1:], np.int32), np.asarray(parents[1:], np.int32),
                 np.asarray(scores[1:], np.float32))
