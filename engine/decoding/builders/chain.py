"""The most likely chain: what a block-diffusion drafter proposes without a tree (DFlash)."""

from __future__ import annotations

import numpy as np

from engine.decoding.tree import plant
from engine.records import DraftTree, Floats, Integers, Lattice


def chain(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """The tree of the most likely token of each depth, in the row that the one before leads to.

    min(nodes, depth) drafted nodes, fewer where the most likely token has probability 0; a bare root for none.
    """
    tokens, steps = best_cells(lattice)
    logprobs = steps[:nodes].cumsum(dtype=np.float32)
    length = int(np.isfinite(logprobs).sum())
    return plant(root, tokens[:length], np.arange(length, dtype=np.int32), logprobs[:length])


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
