"""Combiners: the drafters' trees in, the one tree that is verified out."""

from __future__ import annotations

from collections.abc import Callable

from engine.records import DraftTree
from engine.registry import Table

Combiner = Callable[[tuple[DraftTree, ...], int], DraftTree]  # (a tree a drafter, node budget) -> tree to verify

COMBINERS: Table[Combiner] = Table("engine.combiners", "only", "routed", "merged", "joint")
