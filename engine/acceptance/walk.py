"""Follow the target's choices down the tree (paper 000, section 6.1; paper 002, section 4.4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.acceptance import Residual
from engine.records import Acceptance, DraftTree, Integers, Verification
from engine.tree import path_to


def walk(tree: DraftTree, verification: Verification, residual: Residual, random: np.random.Generator) -> Acceptance:
    """Keep the longest path whose every token is the target's choice at its parent; its last choice is the bonus.

    Exact at any temperature, provided that equal prefixes share one choice: then siblings with the same token
    (disjoint ``merged`` has them) have the same choices below them, and the longest match is the one text that the
    target would have written. Where equally long matches differ, the lowest index wins.
    """
    at = verification.at
    said, depth = {0: at(0)}, {0: 0}  # of the nodes that the target would have written
    deepest = 0
    for node, (parent, token) in enumerate(zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True)):
        if said.get(parent) == token and node:
            said[node], depth[node] = at(node), depth[parent] + 1
            if depth[node] > depth[deepest]:
                deepest = node
    return Acceptance(path_to(tree.parents, deepest), said[deepest])


def longest_path(parents: Integers, accepted: NDArray[np.bool_]) -> Integers:
    """The path from the root to the deepest node whose ancestors and self are all accepted, (a,) int32.

    The product of ``accepted`` (n,) along every path at once. Parents come first; the root counts as accepted.
    """
    depth, above = {0: 0}, {}
    deepest = 0
    for node, (parent, passed) in enumerate(zip(parents.tolist(), accepted.tolist(), strict=True)):
        if passed and node and parent in depth:
            depth[node], above[node] = depth[parent] + 1, parent
            if depth[node] > depth[deepest]:
                deepest = node
    path = [deepest]
    while path[-1]:
        path.append(above[path[-1]])
    return np.asarray(path[::-1], np.int32)
