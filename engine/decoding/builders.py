"""Builders: each makes a draft tree of a given number of nodes from a lattice.

``chain`` is what a block-diffusion drafter proposes without a tree (DFlash). ``best_first`` takes the most probable
prefixes (paper 002, Algorithm 1). ``expand`` is the tree of a drafter that runs once per depth: the best nodes of each
depth are expanded, and the best of all proposals are kept (the expansion and re-ranking that papers 000 and 001 take
from EAGLE-2). ``full`` is the whole tree of a depth and a width (paper 003, "The Tree").
"""

from array import array
from collections.abc import Callable
from heapq import heappop, heappush, heapreplace
from math import inf

import numpy as np

from engine.decoding.tree import from_nodes, root_only
from engine.records import DraftTree, Floats, Integers, Lattice

Builder = Callable[[Lattice, int, int], DraftTree]  # (lattice, root token, drafted nodes) -> tree of one drafter

MIN_SCORE = np.finfo(np.float32).min  # only −inf, a prefix of probability 0, is lower
FIRST_RANKS = 8  # of a row, converted to Python floats first; most trees need no more
EXPAND_WIDTH = 10  # nodes that ``expand`` expands per depth, and children of each: EAGLE-2's setting
FULL_WIDTH = 2  # of ``full``: the paper's own; wider trees spend the budget on the first depth


def chain(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """Draft the greedy chain: at each depth the most likely token, in the row that the token before leads to.

    It has min(nodes, depth) drafted nodes, or fewer if the most likely token has probability 0.
    """
    tokens, steps = best_cells(lattice)
    logprobs = steps[:nodes].cumsum(dtype=np.float32)
    length = int(np.isfinite(logprobs).sum())
    return from_nodes(root, tokens[:length], np.arange(length, dtype=np.int32), logprobs[:length])


def best_cells(lattice: Lattice) -> tuple[Integers, Floats]:
    """Return tokens and log probabilities of the greedy chain, (depth,) each."""
    rows = np.arange(lattice.depth), best_rows(lattice), slice(0, 1)  # none of a recorded lattice without candidates
    return lattice.tokens[rows].ravel(), lattice.logprobs[rows].ravel()


def best_rows(lattice: Lattice) -> Integers:
    """Return the row that the greedy chain reads at each depth, (depth,) int32."""
    rows = np.zeros(lattice.depth, np.int32)
    if lattice.tokens.shape[1] > 1:
        for depth in range(1, lattice.depth):
            rows[depth] = lattice.follow[depth - 1, rows[depth - 1], 0]
    return rows


def best_first(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """Draft the ``nodes`` most probable prefixes, by float32 log probability summed from the root.

    Nodes are sorted by descending log probability, then by depth, parent and rank, so that parents precede children;
    ties are broken in that order. Prefixes of probability 0 are never drafted. Expects logprobs ≤ 0, descending along
    k.

    A heap entry is (cost, depth, parent, rank); cost is the negative log probability, so nodes leave the heap in the
    tree's order. A node that leaves it is replaced by its next sibling and its first child.
    """
    if nodes == 0 or lattice.tokens.size == 0:
        return root_only(root)
    deepest, rows, width = lattice.tokens.shape
    logprobs, follow = lattice.logprobs.reshape(-1, width), lattice.follow.ravel()
    costs = {0: (-logprobs[0, :FIRST_RANKS]).tolist()}  # by row, counted over all depths
    single = array("f", [0.0])  # rounds a sum to float32: exact, since float64 holds more than twice the bits
    costs_so_far, parents, cells = [0.0], [0], [0]
    rows_below = [0]  # of each node: the row that its children are in
    heap = [(costs[0][0], 0, 0, 0)]
    while heap and len(costs_so_far) <= nodes:
        cost, depth, parent, rank = heap[0]
        if cost == inf:
            break
        node, row = len(costs_so_far), rows_below[parent]
        siblings, cell = costs[row], row * width + rank
        costs_so_far.append(cost)
        parents.append(parent)
        cells.append(cell)
        rank += 1
        if rank == len(siblings) < width:
            siblings += (-logprobs[row, FIRST_RANKS:]).tolist()
        if rank < width:
            single[0] = costs_so_far[parent] + siblings[rank]
            heapreplace(heap, (single[0], depth, parent, rank))
        else:
            heappop(heap)
        depth += 1
        if depth == deepest:
            rows_below.append(0)
            continue
        row = depth * rows + (follow.item(cell) if rows > 1 else 0)
        rows_below.append(row)
        if row not in costs:
            costs[row] = (-logprobs[row, :FIRST_RANKS]).tolist()
        single[0] = cost + costs[row][0]
        heappush(heap, (single[0], depth, node, 0))
    tokens, drafters = lattice.tokens.ravel().take(cells), np.ones(len(costs_so_far), np.int32)
    tokens[0], drafters[0] = root, 0
    return DraftTree(tokens, np.asarray(parents, np.int32), 0 - np.asarray(costs_so_far, np.float32), drafters)


def expand(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """Return the tree of the ``nodes`` best proposals, with ``EXPAND_WIDTH`` nodes of a depth expanded, as many
    children each.

    Unlike in ``best_first``, a node outside the best of its depth has no children, however good they would be: the
    price of a drafter that needs another pass for each depth. Order, and so the choice among equals: by log
    probability, descending; then the shallower; then the parent's own order; then the rank. Proposals of probability 0
    are never drafted.
    """
    if nodes == 0 or lattice.tokens.size == 0:
        return root_only(root)
    expanded, expanded_scores, rows = np.zeros(1, np.intp), np.zeros(1, np.float32), np.zeros(1, np.int32)
    levels, count = [], 1
    for depth in range(lattice.depth):
        every = expanded_scores[:, None] + lattice.logprobs[depth, rows, :EXPAND_WIDTH]
        alive = np.isfinite(every)
        scores, parents = every[alive], np.broadcast_to(expanded[:, None], every.shape)[alive]
        tokens, follow = (part[depth, rows, :EXPAND_WIDTH][alive] for part in (lattice.tokens, lattice.follow))
        levels.append((scores, tokens, parents))
        best = (-scores).argsort(kind="stable")[:EXPAND_WIDTH]
        expanded, expanded_scores, rows = best + count, scores[best], follow[best]
        count += len(scores)
    scores, tokens, parents = (np.concatenate(parts) for parts in zip(*levels, strict=True))
    order = (-scores).argsort(kind="stable")[:nodes]  # a parent scores no less than its children and precedes them
    renumbered = np.zeros(count, np.int32)
    renumbered[order + 1] = np.arange(1, len(order) + 1, dtype=np.int32)
    return from_nodes(root, tokens[order], renumbered[parents[order]], scores[order])


def full(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """Draft a full tree: every node has its ``FULL_WIDTH`` most likely tokens as children, down to one depth.

    The depth is the largest at which the tree fits into ``nodes`` (2 + 4 + … for width 2) and into the lattice; the
    rest of the budget is not used. If the lattice has one token per row, or the budget is 1, the tree is a chain.
    Nodes of probability 0 are left out. Nodes are in depth-first order.
    """
    width = min(FULL_WIDTH, lattice.tokens.shape[2], max(nodes, 1))
    deepest, size = 0, width  # size: drafted nodes of the tree one level deeper
    while deepest < lattice.depth and 0 < size <= nodes:
        deepest, size = deepest + 1, width + width * size
    rows, logprobs, follow = (part[:deepest, :, :width].tolist()
                              for part in (lattice.tokens, lattice.logprobs, lattice.follow))
    tokens, parents, scores = [root], [0], [np.float32(0)]

    def add_children(depth: int, row: int, parent: int) -> None:
        for rank in range(width):
            score = np.float32(scores[parent] + logprobs[depth][row][rank])
            if score >= MIN_SCORE:
                node = len(tokens)
                tokens.append(rows[depth][row][rank])
                parents.append(parent)
                scores.append(score)
                if depth + 1 < deepest:
                    add_children(depth + 1, follow[depth][row][rank], node)
    if deepest:
        add_children(0, 0, 0)
    return from_nodes(root, np.asarray(tokens[1:], np.int32), np.asarray(parents[1:], np.int32),
                 np.asarray(scores[1:], np.float32))
