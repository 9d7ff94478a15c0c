"""Paper 002, Algorithm 1, as published: the best prefixes one after another, from a heap.

For some dozens of nodes over marginals this takes half the time of the search by levels, in which every step is a call
to numpy; for some hundreds it takes longer. ``best_first`` chooses.
"""

from __future__ import annotations

from array import array
from heapq import heappop, heappush, heapreplace
from math import inf

import numpy as np

from engine.records import DraftTree, Lattice

FEW = 8  # ranks of a depth that are converted to Python floats at once; most trees need no more


def from_heap(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """See ``best_first``, for a lattice of one row per depth. A heap entry is (cost, depth, the parent's place, rank),
    where cost is the negative sum of log probabilities, so the heap's order is the order of the tree, ties included.

    An entry that leaves the heap is replaced by its next sibling and its own first child.
    """
    width, deepest = lattice.tokens.shape[2], lattice.depth
    costs = (-lattice.logprobs[:, 0, :FEW]).tolist()
    single = array("f", [0.0])  # rounds a sum to float32: exact, since float64 holds more than twice the bits
    found, parents, cells = [0.0], [0], [0]
    heap = [(costs[0][0], 0, 0, 0)]
    while heap and len(found) <= nodes:
        cost, depth, parent, rank = heap[0]
        if cost == inf:
            break
        place, siblings = len(found), costs[depth]
        found.append(cost)
        parents.append(parent)
        cells.append(depth * width + rank)
        rank += 1
        if rank == len(siblings) < width:
            siblings += (-lattice.logprobs[depth, 0, FEW:]).tolist()
        if rank < width:
            single[0] = found[parent] + siblings[rank]
            heapreplace(heap, (single[0], depth, parent, rank))
        else:
            heappop(heap)
        depth += 1
        if depth < deepest:
            single[0] = cost + costs[depth][0]
            heappush(heap, (single[0], depth, place, 0))
    tokens, drafters = lattice.tokens.ravel().take(cells), np.ones(len(found), np.int32)
    tokens[0], drafters[0] = root, 0
    return DraftTree(tokens, np.asarray(parents, np.int32), 0 - np.asarray(found, np.float32), drafters)
