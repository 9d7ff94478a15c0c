"""Who decides how many nodes a round drafts and verifies. Only what is known before verification may decide: then
the tree's shape tells nothing of the target's choices, and the text is the same whatever the pace (contract 2).
"""

from __future__ import annotations

from collections.abc import Sequence
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


class Allotment(Protocol):
    """Who shares one total of rows out among the requests that share their passes. Told twice a round, of all requests
    that take part in it by their policies in order: those that it made itself, and others, whose trees stay whole."""

    def policy(self, promise: float) -> BudgetPolicy:
        """For one more request, which is to get at least ``promise`` tokens a second; 0 promises nothing."""

    def opens(self, policies: Sequence[BudgetPolicy]) -> None:
        """A round begins: settle what its own policies answer when they are asked."""

    def cut(self, policies: Sequence[BudgetPolicy], trees: Sequence[DraftTree]) -> list[DraftTree]:
        """The part of each tree that is verified, the root included."""

    def ended(self, policies: Sequence[BudgetPolicy], seconds: float) -> None:
        """The round took so long; every request in it was told what it keeps."""

    def got(self, policy: BudgetPolicy) -> tuple[float, float]:
        """Tokens a second that a request was promised, and that it got so far."""


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
