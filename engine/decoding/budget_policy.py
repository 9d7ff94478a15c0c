"""What decides how many nodes a round drafts and verifies. A decision may depend only on what is known before
verification: then the tree's shape carries no information about the target's choices, and the text is the same at any
pace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.records import Acceptance, DraftTree

FIXED, AUTO = "fixed", "auto"
PACES = (FIXED, AUTO)  # of a ``Request``
MOST_AUTO = 256  # the most drafted nodes that a round at the pace ``auto`` verifies, unless a request says otherwise


class BudgetPolicy(Protocol):
    """Consulted twice a round and informed once; it serves one run."""

    def opens(self, drafter_count: int, budget: int) -> tuple[int, int]:
        """How many of the drafters draft this round (all or none), and the budget that their trees are built for, of
        at most ``budget`` nodes."""

    def cut(self, tree: DraftTree) -> DraftTree:
        """The part of the built tree that is verified, the root included; without a draft that is the root."""

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """Take note of what was accepted of the verified tree."""


class BudgetAllocator(Protocol):
    """Divides one total of rows among the requests that share a forward pass."""

    def divide(self, policies: Sequence[BudgetPolicy], trees: Sequence[DraftTree]) -> list[DraftTree]:
        """The part of each request's tree that is verified, the root included, for all requests of a round, in order;
        it stands in for the policies' own ``cut``."""

    def ended(self, policies: Sequence[BudgetPolicy], seconds: Mapping[str, float]) -> None:
        """Called when a round has ended, with its seconds per stage; all its policies have learned what was kept."""

    def pools_rows(self, policy: BudgetPolicy) -> bool:
        """Whether this policy's request takes its rows from the total."""


class FixedBudget:
    """Every drafter drafts every round, and the whole tree is verified."""

    def opens(self, drafter_count: int, budget: int) -> tuple[int, int]:
        return drafter_count, budget

    def cut(self, tree: DraftTree) -> DraftTree:
        return tree

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """See ``BudgetPolicy``."""
