"""The most probable prefixes under a drafter's proposals: the exact result of paper 002, Algorithm 1.

Small trees over marginals come from the paper's heap: for some dozens of nodes it takes half the time of the search by
levels, in which every step is a call to numpy; for some hundreds it takes longer. Large trees come level by level. Sort
the nodes of a depth, best first: the j-th child of the i-th node can be among the best B prefixes only if all that
surely precede it leave room. With one row per depth these are the (i + 1)(j + 1) pairs up to it and the i + 1 parents,
so (i + 1)(j + 2) ≤ B with i and j from 0; with a row per path, only the i + 1 parents and the j + 1 siblings up to it,
so i + j + 2 ≤ B. Either set of pairs depends only on B and the width.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush, heapreplace
from math import inf

import numpy as np
from numpy.typing import NDArray

from engine.decoding.builders.chain import best_rows
from engine.decoding.tree import bare, plant
from engine.records import DraftTree, Floats, Integers, Lattice

LOWEST = np.finfo(np.float32).min  # only −inf, a prefix of probability 0, is lower
HEAP_NODES = 192  # over marginals, the heap is faster up to so many nodes
FEW_RANKS = 8  # of a depth, converted to Python floats at once; most trees need no more
SAMPLE = 4  # the first bound scores about so many prefixes per node of the budget

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
    each reads its children in, and its parent's place. Places number the nodes of all levels, from the root's 0."""

    scores: Floats
    tokens: Integers
    rows: Integers
    parents: Indices
    first_place: int


def best_first(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """The ``nodes`` prefixes with the largest float32 log probability, summed from the root on.

    Order, and so the choice among equals: by log probability, descending; then the shallower; then the parent's
    own order; then the rank. Parents therefore come before children. Prefixes of probability 0 are never drafted;
    where there are fewer than ``nodes`` others, all of them are. Expects logprobs ≤ 0, descending along k.
    """
    if nodes == 0 or lattice.tokens.size == 0:
        return bare(root)
    if lattice.tokens.shape[1] == 1 and nodes <= HEAP_NODES:
        return from_heap(lattice, root, nodes)
    return by_levels(lattice, root, nodes)


def from_heap(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """See ``best_first``, for a lattice of one row per depth. A heap entry is (cost, depth, the parent's place, rank),
    where cost is the negative sum of log probabilities, so the heap's order is the order of the tree, ties included.

    An entry that leaves the heap is replaced by its next sibling and its own first child.
    """
    width, deepest = lattice.tokens.shape[2], lattice.depth
    costs = (-lattice.logprobs[:, 0, :FEW_RANKS]).tolist()
    single = array("f", [0.0])  # rounds a sum to float32: exact, since float64 holds more than twice the bits
    costs_so_far, parents, cells = [0.0], [0], [0]
    heap = [(costs[0][0], 0, 0, 0)]
    while heap and len(costs_so_far) <= nodes:
        cost, depth, parent, rank = heap[0]
        if cost == inf:
            break
        place, siblings = len(costs_so_far), costs[depth]
        costs_so_far.append(cost)
        parents.append(parent)
        cells.append(depth * width + rank)
        rank += 1
        if rank == len(siblings) < width:
            siblings += (-lattice.logprobs[depth, 0, FEW_RANKS:]).tolist()
        if rank < width:
            single[0] = costs_so_far[parent] + siblings[rank]
            heapreplace(heap, (single[0], depth, parent, rank))
        else:
            heappop(heap)
        depth += 1
        if depth < deepest:
            single[0] = cost + costs[depth][0]
            heappush(heap, (single[0], depth, place, 0))
    tokens, drafters = lattice.tokens.ravel().take(cells), np.ones(len(costs_so_far), np.int32)
    tokens[0], drafters[0] = root, 0
    return DraftTree(tokens, np.asarray(parents, np.int32), 0 - np.asarray(costs_so_far, np.float32), drafters)


def by_levels(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """See ``best_first``; a lattice with tokens, and one node or more."""
    least = surely_reached(lattice, nodes)
    width = lattice.tokens.shape[2]
    pairs = conditional_pairs(nodes, width) if lattice.tokens.shape[1] > 1 else marginal_pairs(nodes, width)
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
                 parents.take(best) + above.first_place, above.first_place + len(above.scores))


def best_of(root: int, levels: list[SearchLevel], nodes: int) -> DraftTree:
    """The tree of the best ``nodes`` of all levels, one or more. A parent scores no less than its children and precedes
    them, so it is in; a stable sort keeps the order among equals."""
    scores = np.concatenate([level.scores for level in levels])
    order = (-scores).argsort(kind="stable")[:nodes]
    places = np.zeros(len(scores) + 1, np.int32)
    places[order + 1] = np.arange(1, len(order) + 1, dtype=np.int32)
    parents = np.concatenate([level.parents for level in levels]).take(order)
    tokens = np.concatenate([level.tokens for level in levels]).take(order)
    return plant(root, tokens, places.take(parents), scores.take(order))


def _raised(least: np.float32, levels: list[SearchLevel], nodes: int) -> np.float32:
    """The raised bound after these levels, computed only where a level is wide enough to be worth it."""
    scores = np.concatenate([level.scores for level in levels])
    if len(scores) < nodes:
        return least
    scores.partition(len(scores) - nodes)
    return max(least, scores[len(scores) - nodes])


def surely_reached(lattice: Lattice, nodes: int) -> np.float32:
    """A score that each of the best ``nodes`` prefixes reaches, so that any prefix below it can be ignored.

    The ``nodes``-th best among some prefixes is such a score; here the most likely chain's and their siblings'.
    """
    depth, _, width = lattice.tokens.shape
    columns = min(width, -(-SAMPLE * nodes // depth))
    if depth * columns < nodes:
        return LOWEST
    beside = lattice.logprobs[np.arange(depth), best_rows(lattice), :columns]
    beside[1:] += beside[:, 0].cumsum()[:-1, None]
    flat = beside.ravel()
    flat.partition(flat.size - nodes)
    return max(flat[flat.size - nodes], LOWEST)


@lru_cache(maxsize=64)
def marginal_pairs(nodes: int, width: int) -> Pairs:
    """Pairs (i, j) with (i + 1)(j + 2) ≤ nodes and j < width, i ascending."""
    parents = np.arange(nodes // 2, dtype=np.intp)
    return _pairs(np.minimum(nodes // (parents + 1) - 1, width))


@lru_cache(maxsize=64)
def conditional_pairs(nodes: int, width: int) -> Pairs:
    """Pairs (i, j) with i + j + 2 ≤ nodes and j < width, i ascending."""
    parents = np.arange(nodes - 1, dtype=np.intp)
    return _pairs(np.minimum(nodes - 1 - parents, width))


def _pairs(children: Indices) -> Pairs:
    """All pairs where parent i has its first ``children[i]`` children."""
    ends = np.concatenate([np.zeros(1, np.intp), children.cumsum()])
    parents = np.arange(len(children)).repeat(children)
    return Pairs(parents, np.arange(len(parents)) - ends[parents], tuple(ends.tolist()))
