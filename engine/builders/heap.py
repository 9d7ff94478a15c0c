"""Paper 002, Algorithm 1, as it stands: the best prefixes one after the other, from a heap.

For some dozens of nodes over marginals this takes half the time of the search by levels, whose every step is a call
into numpy; for some hundreds it takes longer. ``best_first`` chooses.
"""

from __future__ import annotations

from array import array
from heapq import heappop, heappush, heapreplace
from math import inf

import numpy as np

from engine.records import DraftTree, Lattice
from engine.tree import plant


def from_heap(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """See ``best_first``, for a lattice of one row a depth. A heap entry is (cost, depth, the parent's place, rank),
    cost the negative sum: its order is the order of the tree, equals included.

    Whoever leaves the heap puts its next sibling and its own first child there.
    """
    costs = (-lattice.logprobs[:, 0]).tolist()
    single = array("f", [0.0])  # rounds a sum to float32: exact, since float64 holds more than twice the bits
    found: list[float] = [0.0]
    parents: list[int] = []
    depths: list[int] = []
    ranks: list[int] = []
    heap = [(costs[0][0], 0, 0, 0)]
    while heap and len(parents) < nodes:
        cost, depth, parent, rank = heap[0]
        if cost == inf:
            break
        found.append(cost)
        parents.append(parent)
        depths.append(depth)
        ranks.append(rank)
        siblings = costs[depth]
        if rank + 1 < len(siblings):
            single[0] = found[parent] + siblings[rank + 1]
            heapreplace(heap, (single[0], depth, parent, rank + 1))
        else:
            heappop(heap)
        if depth + 1 < len(costs):
            single[0] = cost + costs[depth + 1][0]
            heappush(heap, (single[0], depth + 1, len(parents), 0))
    tokens = lattice.tokens[np.asarray(depths, np.intp), 0, np.asarray(ranks, np.intp)]
    return plant(root, tokens, np.asarray(parents, np.int32), 0 - np.asarray(found[1:], np.float32))
