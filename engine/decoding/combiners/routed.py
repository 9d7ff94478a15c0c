"""Verifies only the tree of the more confident drafter (paper 001, section 5)."""

from __future__ import annotations

from dataclasses import replace

from engine.records import DraftTree


def routed(trees: tuple[DraftTree, ...], budget: int) -> DraftTree:
    """The tree with the larger mean node confidence μ, the first among equals; ``drafters`` keeps the winner's bit."""
    scores = [tree.confidence for tree in trees]
    winner = scores.index(max(scores))
    return replace(trees[winner], drafters=trees[winner].drafters << winner)
