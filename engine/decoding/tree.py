"""Depths, paths and parts of a tree, and the tree as rows of one forward pass."""

import numpy as np

from engine.records import DraftTree, Floats, Integers, PackedTree

ONE_ROW_MASK = np.ones((1, 1), np.bool_)


def depths(parents: Integers) -> Integers:
    """Return the depth of each node, the root's being 0, (n,) int32 (paper 000, section 4.3)."""
    below_root = [0]
    for parent in parents.tolist()[1:]:
        below_root.append(below_root[parent] + 1)
    return np.asarray(below_root, np.int32)


def path_to(parents: Integers, node: int) -> Integers:
    """Return the nodes from the root down to ``node``, both included: (depth + 1,) int32."""
    path = [node]
    while path[-1] != 0:
        path.append(int(parents[path[-1]]))
    return np.asarray(path[::-1], np.int32)


def root_only(root: int) -> DraftTree:
    """Return the tree of the root alone."""
    zero: Integers = np.zeros(1, np.int32)
    return DraftTree(np.asarray([root], np.int32), zero, np.zeros(1, np.float32), zero)


def from_nodes(root: int, tokens: Integers, parents: Integers, logprobs: Floats) -> DraftTree:
    """Return the tree of one drafter from its drafted nodes, all (n,); parents count the root as node 0."""
    size = len(tokens) + 1
    drafters = np.ones(size, np.int32)
    drafters[0] = 0
    tree = DraftTree(np.empty(size, np.int32), np.zeros(size, np.int32), np.zeros(size, np.float32), drafters)
    tree.tokens[0], tree.tokens[1:] = root, tokens
    tree.parents[1:], tree.logprobs[1:] = parents, logprobs
    return tree


def select(tree: DraftTree, nodes: Integers) -> DraftTree:
    """Return the tree of these nodes, in this order: the root first, every parent before its children."""
    renumbered = np.zeros(len(tree), np.int32)
    renumbered[nodes] = np.arange(len(nodes), dtype=np.int32)
    return DraftTree(tree.tokens[nodes], renumbered[tree.parents[nodes]], tree.logprobs[nodes], tree.drafters[nodes])


def prefix(tree: DraftTree, nodes: int) -> DraftTree:
    """Return the tree of the root and the first ``nodes`` drafted nodes."""
    end = nodes + 1
    return DraftTree(tree.tokens[:end], tree.parents[:end], tree.logprobs[:end], tree.drafters[:end])


def pack(tree: DraftTree, start: int) -> PackedTree:
    """Return the tree as rows at absolute positions ``start`` + depth. Each row of the mask is built as one integer,
    its parent's bits and its own: about a microsecond for a dozen rows."""
    size = len(tree)
    if size == 1:
        return PackedTree(tree.tokens, np.asarray([start], np.int32), tree.parents, ONE_ROW_MASK)
    lines, bit = [1], 1
    for parent in tree.parents.tolist()[1:]:
        bit += bit
        lines.append(bit | lines[parent])
    positions = np.asarray([line.bit_count() for line in lines], np.int32) + np.int32(start - 1)
    width = -(-size // 8)
    bits = np.frombuffer(b"".join([line.to_bytes(width, "little") for line in lines]), np.uint8)
    visible = np.unpackbits(bits.reshape(size, width), axis=1, count=size, bitorder="little").view(np.bool_)
    return PackedTree(tree.tokens, positions, tree.parents, visible)
