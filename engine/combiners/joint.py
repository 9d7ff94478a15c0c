"""One tree over all heads: a prefix that several propose is one node, and the budget is spent once.

The union of the heads' tries, each prefix scored by the head that believes in it most. A score falls along every
head's own paths, and whoever proposes a node proposes its parent, so a node's best score is no better than its
parent's: the best nodes of the union, the shallower first among equals, are again a tree.
"""

from __future__ import annotations

import numpy as np

from engine.records import DraftTree
from engine.tree import select


class Union:
    """The trie in the making, as lists by node, the root first; ``places`` finds a child by (parent, token)."""

    def __init__(self, root: int) -> None:
        self.places: dict[tuple[int, int], int] = {}
        self.tokens, self.parents, self.depths, self.heads = [root], [0], [0], [0]
        self.scores = [0.0]

    def add(self, tree: DraftTree, head: int) -> None:
        """Every node of one head's tree, under the place that its parent has here."""
        here = [0]
        nodes = zip(tree.tokens[1:].tolist(), tree.parents[1:].tolist(), tree.logprobs[1:].tolist(), strict=True)
        for token, parent, score in nodes:
            above = here[parent]
            place = self.places.setdefault((above, token), len(self.tokens))
            here.append(place)
            if place < len(self.tokens):
                self.scores[place] = max(self.scores[place], score)
                self.heads[place] |= head
                continue
            self.tokens.append(token)
            self.parents.append(above)
            self.depths.append(self.depths[above] + 1)
            self.scores.append(score)
            self.heads.append(head)

    def tree(self) -> DraftTree:
        """As arrays."""
        return DraftTree(np.asarray(self.tokens, np.int32), np.asarray(self.parents, np.int32),
                         np.asarray(self.scores, np.float32), np.asarray(self.heads, np.int32))


def joint(trees: tuple[DraftTree, ...], budget: int) -> DraftTree:
    """The ``budget`` best nodes of the union by log probability, then depth, then the heads' own order.

    A node's heads mask has the bit of every head that proposes it; its log probability is the largest of theirs.
    """
    union = Union(int(trees[0].tokens[0]))
    for head, tree in enumerate(trees):
        union.add(tree, 1 << head)
    whole = union.tree()
    # the root, at log probability 0 and depth 0, always comes first
    order = np.lexsort((np.asarray(union.depths, np.int32), -whole.logprobs))[:budget + 1]
    return select(whole, order.astype(np.int32))
