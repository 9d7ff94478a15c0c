"""Who decides how many nodes a round drafts and verifies. Only what is known before verification may decide: then
the tree's shape tells nothing of the target's choices, and the text is the same whatever the pace (contract 2).
"""

from __future__ import annotations

from typing import Protocol

from engine.records import Acceptance, DraftTree

FIXED, AUTO = "fixed", "auto"
PACES = (FIXED, AUTO)  # of a ``Request``
MOST_AUTO = 256  # where nothing else is said, no round at its own pace verifies more drafted nodes than this


class BudgetPolicy(Protocol):
    """Asked twice a round and told once; it serves one run."""

    def opens(self, drafters: int, budget: int) -> tuple[int, int]:
        """How many of the drafters draft this round (all or none), and the budget that their trees are built for, of
        at most ``budget`` nodes."""

    def cut(self, tree: DraftTree) -> DraftTree:
        """The part of the built tree that is verified, the root included."""

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """What came of the verified tree."""


class FixedBudget:
    """Every drafter drafts every round, and the whole tree is verified."""

    def opens(self, drafters: int, budget: int) -> tuple[int, int]:
        """See ``BudgetPolicy``."""
        return drafters, budget

    def cut(self, tree: DraftTree) -> DraftTree:
        """See ``BudgetPolicy``."""
        return tree

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """See ``BudgetPolicy``."""
