"""Budget policies: how many nodes a round drafts and verifies.

A policy sees only what is known before verification, so the tree's shape cannot depend on the target's choices and the
text is the same at any pace.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.records import Acceptance, DraftTree

FIXED, AUTO = "fixed", "auto"
PACES = (FIXED, AUTO)  # of a ``Request``
MAX_AUTO_NODES = 256  # drafted nodes of a round at ``auto``, unless the request says otherwise


class BudgetPolicy:
    """Decides for one run. In each round the loop calls ``plan``, ``cut`` and ``learn``, and if it pools rows
    ``record_timing``. This one drafts every round with every drafter, and verifies the whole tree."""

    # Whether the run shares one total of rows with other runs of the pass, and learns from measured times. False if
    # its text depends on its trees.
    pools_rows = False

    def plan(self, drafter_count: int, budget: int) -> tuple[int, int]:
        """Return how many drafters draft this round (all or none), and how many nodes are built, at most ``budget``."""
        return drafter_count, budget

    def cut(self, policies: Sequence[Any], trees: Sequence[DraftTree], others: Sequence[DraftTree]) -> list[DraftTree]:
        """Return the part of each run's tree to verify, root included. ``policies`` share one total of rows; the trees
        of ``others`` are in the same pass and are never cut."""
        return list(trees)

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """Learn what was accepted of the verified tree."""

    def record_timing(self, seconds: Mapping[str, float], alone: bool = True) -> None:
        """Learn a round's seconds by stage, and whether this run had it to itself."""


def cut_trees(policies: Sequence[BudgetPolicy], trees: Sequence[DraftTree]) -> list[DraftTree]:
    """Return the part of each run's tree that one pass verifies."""
    verified = {number: policy.cut([policy], [tree], ())[0]
                for number, (policy, tree) in enumerate(zip(policies, trees, strict=True)) if not policy.pools_rows}
    if pooled := [number for number in range(len(trees)) if number not in verified]:
        parts = policies[pooled[0]].cut([policies[number] for number in pooled],
                                        [trees[number] for number in pooled], list(verified.values()))
        verified |= zip(pooled, parts, strict=True)
    return [verified[number] for number in range(len(trees))]
