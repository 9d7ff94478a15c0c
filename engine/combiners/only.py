"""One drafter, nothing to combine."""

from __future__ import annotations

from engine.records import DraftTree


def only(trees: tuple[DraftTree, ...], budget: int) -> DraftTree:
    """The first tree as it is."""
    return trees[0]
