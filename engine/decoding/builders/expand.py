"""The tree of a drafter that runs once per depth: the best nodes of each depth are expanded, and the best of all
proposals are kept (the expansion and re-ranking that papers 000 and 001 take from EAGLE-2)."""

from __future__ import annotations

import numpy as np

from engine.decoding.builders.best_first import SearchLevel, best_of
from engine.decoding.tree import bare
from engine.records import DraftTree, Lattice

WIDEST = 10  # expanded nodes per depth, and children of each; the published setting


def expand(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """The tree of the ``nodes`` best proposals, with ``WIDEST`` expanded nodes per depth of ``WIDEST`` children each.

    Unlike in ``best_first``, a node outside the best of its depth has no children, however good they would be: the
    price of a drafter that needs another pass for each depth. Order, and so the choice among equals: by log
    probability, descending; then the shallower; then the parent's own order; then the rank. Proposals of
    probability 0 are never drafted.
    """
    zero = np.zeros(1, np.int32)
    levels = [SearchLevel(np.zeros(1, np.float32), zero, zero, np.zeros(1, np.intp), 0)]  # the root
    for depth in range(lattice.depth):
        below = _proposals(lattice, depth, levels[-1])
        if len(below.scores) == 0:
            break
        levels.append(below)
    return best_of(root, levels[1:], nodes) if nodes and len(levels) > 1 else bare(root)


def _proposals(lattice: Lattice, depth: int, above: SearchLevel) -> SearchLevel:
    """The children of the best nodes above, those of probability 0 left out."""
    best = (-above.scores).argsort(kind="stable")[:WIDEST]
    rows = above.rows[best]
    scores = above.scores[best, None] + lattice.logprobs[depth, rows, :WIDEST]
    alive = np.isfinite(scores)
    parents = np.broadcast_to((best + above.first_place)[:, None], scores.shape)
    return SearchLevel(scores[alive], lattice.tokens[depth, rows, :WIDEST][alive],
                       lattice.follow[depth, rows, :WIDEST][alive], parents[alive],
                       above.first_place + len(above.scores))
