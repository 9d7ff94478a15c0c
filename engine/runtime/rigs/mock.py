"""A tree to time a pass with: it holds no draft."""

from __future__ import annotations

import numpy as np

from engine.records import DraftTree
from engine.tree import plant

CHAIN = 15  # the first nodes are a chain: as deep as a block, and as bushy as a draft tree below


def mock_tree(root: int, rows: int) -> DraftTree:
    """A tree of ``rows`` rows with the depth of a block: a chain, and after it four children to a node."""
    nodes = np.arange(1, rows, dtype=np.int32)
    parents = np.where(nodes <= CHAIN, nodes - 1, (nodes - CHAIN - 1) // 4).astype(np.int32)
    return plant(root, np.full(rows - 1, root, np.int32), parents, np.zeros(rows - 1, np.float32))
