"""Builders: a lattice and a number of nodes in, a draft tree out."""

from __future__ import annotations

from collections.abc import Callable

from engine.records import DraftTree, Lattice
from engine.registry import Table

Builder = Callable[[Lattice, int, int], DraftTree]  # (lattice, root token, drafted nodes) -> tree of one drafter

BUILDERS: Table[Builder] = Table("engine.builders", "chain", "best_first", "expand", "full")
