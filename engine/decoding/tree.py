"""What follows from a tree's parents (depths, masks, paths), and the tree as rows of one forward pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.records import DraftTree, Floats, Integers, PackedTree

ALONE = np.ones((1, 1), np.bool_)  # the mask of a single row


def depths(parents: Integers) -> Integers:
    """The depth of each node, the root's being 0, (n,) int32 (paper 000, section 4.3)."""
    found = [0]
    for parent in parents.tolist()[1:]:
        found.append(found[parent] + 1)
    return np.asarray(found, np.int32)


def ancestors(parents: Integers) -> NDArray[np.bool_]:
    """The mask (n, n) bool: row i sees itself and its ancestors (paper 000, section 4.2)."""
    return _mask(_lines(parents))


def _lines(parents: Integers) -> list[int]:
    """The mask, each row as one integer: its parent's bits and its own, about a microsecond for a dozen rows. A row
    that is its own parent (the root, padding) sees only itself."""
    lines: list[int] = []
    own = 1
    for node, parent in enumerate(parents.tolist()):
        lines.append(own | lines[parent] if parent < node else own)
        own += own
    return lines


def _mask(lines: list[int]) -> NDArray[np.bool_]:
    size = len(lines)
    width = -(-size // 8)
    packed = np.frombuffer(b"".join([line.to_bytes(width, "little") for line in lines]), np.uint8)
    return np.unpackbits(packed.reshape(size, width), axis=1, count=size, bitorder="little").view(np.bool_)


def path_to(parents: Integers, node: int) -> Integers:
    """The nodes from the root down to ``node``, both included: (depth + 1,) int32."""
    path = [node]
    while path[-1] != 0:
        path.append(int(parents[path[-1]]))
    return np.asarray(path[::-1], np.int32)


def plant(root: int, tokens: Integers, parents: Integers, logprobs: Floats) -> DraftTree:
    """The tree of one drafter from its drafted nodes, all (n,); parents count the root as node 0."""
    size = len(tokens) + 1
    drafters = np.ones(size, np.int32)
    drafters[0] = 0
    tree = DraftTree(np.empty(size, np.int32), np.zeros(size, np.int32), np.zeros(size, np.float32), drafters)
    tree.tokens[0], tree.tokens[1:] = root, tokens
    tree.parents[1:], tree.logprobs[1:] = parents, logprobs
    return tree


def select(tree: DraftTree, nodes: Integers) -> DraftTree:
    """The tree of these nodes, in this order: the root first, every parent before its children."""
    place = np.zeros(len(tree), np.int32)
    place[nodes] = np.arange(len(nodes), dtype=np.int32)
    return DraftTree(tree.tokens[nodes], place[tree.parents[nodes]], tree.logprobs[nodes], tree.drafters[nodes])


def beginning(tree: DraftTree, nodes: int) -> DraftTree:
    """The root and the first ``nodes`` drafted nodes."""
    end = nodes + 1
    return DraftTree(tree.tokens[:end], tree.parents[:end], tree.logprobs[:end], tree.drafters[:end])


def pack(tree: DraftTree, start: int, rows: int = 0) -> PackedTree:
    """The tree as rows at absolute positions ``start`` + depth, padded to ``rows`` where that is more.

    A padding row is its own parent, so that no real row sees it (research note: trap 16).
    """
    size, tokens, parents = len(tree), tree.tokens, tree.parents
    if size == 1 >= rows:
        return PackedTree(tokens, np.asarray([start], np.int32), parents, size, ALONE)
    if rows > size:
        tokens = np.concatenate([tokens, np.zeros(rows - size, np.int32)])
        parents = np.concatenate([parents, np.arange(size, rows, dtype=np.int32)])
    lines = _lines(parents)
    positions = np.asarray([line.bit_count() for line in lines], np.int32) + np.int32(start - 1)
    return PackedTree(tokens, positions, parents, size, _mask(lines))
