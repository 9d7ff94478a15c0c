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

FEW = 8  # ranks of a depth that are made into numbers of Python at once; most trees need no more


def from_heap(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """See ``best_first``, for a lattice of one row a depth. A heap entry is (cost, depth, the parent's place, rank),
    cost the negative sum: its order is the order of the tree, equals included.

    Whoever leaves the heap puts its next sibling and its own first child there.
    """
    width = lattice.tokens.shape[2]
    costs = (-lattice.logprobs[:, 0, :FEW]).tolist()
    single = array("f", [0.0])  # rounds a sum to float32: exact, since float64 holds more than twice the bits
    found: list[float] = [0.0]
    parents: list[int] = []
    cells: list[int] = []
    heap = [(costs[0][0], 0, 0, 0)]
    while heap and len(parents) < nodes:
        cost, depth, parent, rank = heap[0]
        if cost == inf:
            break
        found.append(cost)
        parents.append(parent)
        cells.append(depth * width + rank)
        siblings = costs[depth]
        if rank + 1 == len(siblings) < width:
            siblings += (-lattice.logprobs[depth, 0, FEW:]).tolist()
        if rank + 1 < width:
            single[0] = found[parent] + siblings[rank + 1]
            heapreplace(heap, (single[0], depth, parent, rank + 1))
        else:
            heappop(heap)
        if depth + 1 < len(costs):
            single[0] = cost + costs[depth + 1][0]
            heappush(heap, (single[0], depth + 1, len(parents), 0))
    tokens = lattice.tokens.ravel().take(np.asarray(cells, np.intp))
    return plant(root, tokens, np.asarray(parents, np.int32), 0 - np.asarray(found[1:], np.float32))
