"""Combines nothing, for methods with one drafter."""

from __future__ import annotations

from engine.records import DraftTree


def only(trees: tuple[DraftTree, ...], budget: int) -> DraftTree:
    """The first tree, unchanged."""
    return trees[0]
