"""Budget policies: how many nodes a round drafts and verifies.

A policy may use only what is known before verification. The tree's shape then tells nothing of the target's choices,
and the text is the same at any pace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.records import Acceptance, DraftTree

FIXED, AUTO = "fixed", "auto"
PACES = (FIXED, AUTO)  # of a ``Request``
MAX_AUTO_NODES = 256  # drafted nodes of a round at ``auto``, unless the request says otherwise


class BudgetPolicy(Protocol):
    """Decides for one run: ``plan`` and ``cut`` in each round, then ``learn``."""

    def plan(self, drafter_count: int, budget: int) -> tuple[int, int]:
        """Return how many drafters draft this round (all or none), and how many nodes are built, at most ``budget``."""

    def cut(self, tree: DraftTree) -> DraftTree:
        """Return the part of the built tree to verify, root included."""

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """Learn what was accepted of the verified tree."""


class BudgetAllocator(Protocol):
    """Divides one total of rows among requests that share a pass. ``decoding`` knows it as a protocol, because the one
    allocator (``budget/auto.py``) needs measured costs."""

    def divide(self, policies: Sequence[BudgetPolicy], trees: Sequence[DraftTree]) -> list[DraftTree]:
        """Return the part of each request's tree to verify, instead of each policy's own ``cut``."""

    def ended(self, policies: Sequence[BudgetPolicy], seconds: Mapping[str, float]) -> None:
        """Learn a round's seconds by stage, after all its policies have learned what was kept."""

    def pools_rows(self, policy: BudgetPolicy) -> bool:
        """Whether this policy's request takes its rows from the total."""


class FixedBudget:
    """Draft every round with every drafter, and verify the whole tree."""

    def plan(self, drafter_count: int, budget: int) -> tuple[int, int]:
        return drafter_count, budget

    def cut(self, tree: DraftTree) -> DraftTree:
        return tree

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """See ``BudgetPolicy``."""
