"""Budget policies: how many nodes a round drafts and verifies.

A policy sees only what is known before verification, so the tree's shape cannot depend on the target's choices and the
text is the same at any pace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.records import Acceptance, DraftTree

FIXED, AUTO = "fixed", "auto"
PACES = (FIXED, AUTO)  # of a ``Request``
MAX_AUTO_NODES = 256  # drafted nodes of a round at ``auto``, unless the request says otherwise


class BudgetPolicy:
    """Decides for one run. In each round the loop calls ``plan``, ``cut`` or ``cut_pool``, and ``learn``, and if it
    pools rows ``record_timing``. This one drafts every round with every drafter, and verifies the whole tree.
    """

    # Whether the run shares one total of rows with other such runs of the pass, and learns from the clock; not if its
    # text depends on its trees.
    pools_rows = False

    def plan(self, drafter_count: int, budget: int) -> tuple[int, int]:
        """Return how many drafters draft this round (all or none), and how many nodes are built, at most ``budget``."""
        return drafter_count, budget

    def cut(self, tree: DraftTree) -> DraftTree:
        """Return the part of the built tree to verify, root included."""
        return tree

    def cut_pool(self, policies: Sequence[Any], trees: Sequence[DraftTree], others: Sequence[DraftTree]
                 ) -> list[DraftTree]:
        """Return the part of each run's tree to verify. ``policies`` are all that pool their rows, this one among them;
        the trees of ``others`` are verified whole in the same pass."""
        return list(trees)

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """Learn what was accepted of the verified tree."""

    def record_timing(self, seconds: Mapping[str, float], alone: bool = True) -> None:
        """Learn a round's seconds by stage, and whether this run had it to itself."""


def cut_trees(policies: Sequence[BudgetPolicy], trees: Sequence[DraftTree]) -> list[DraftTree]:
    """Return the part of each run's tree that one pass verifies."""
    pooled = [number for number, policy in enumerate(policies) if policy.pools_rows]
    verified = [tree if policy.pools_rows else policy.cut(tree) for policy, tree in zip(policies, trees, strict=True)]
    if pooled:
        others = [tree for tree, policy in zip(verified, policies, strict=True) if not policy.pools_rows]
        parts = policies[pooled[0]].cut_pool([policies[number] for number in pooled],
                                             [trees[number] for number in pooled], others)
        for number, part in zip(pooled, parts, strict=True):
            verified[number] = part
    return verified
