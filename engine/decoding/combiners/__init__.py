"""Combiners: each turns the drafters' trees into the one tree that is verified."""

from __future__ import annotations

from collections.abc import Callable

from engine.records import DraftTree
from engine.registry import Table

Combiner = Callable[[tuple[DraftTree, ...], int], DraftTree]  # (one tree per drafter, node budget) -> tree to verify

COMBINERS: Table[Combiner] = Table("engine.decoding.combiners", "only", "routed", "merged", "joint")
