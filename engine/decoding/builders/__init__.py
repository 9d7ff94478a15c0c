"""Builders: each makes a draft tree of a given number of nodes from a lattice."""

from __future__ import annotations

from collections.abc import Callable

from engine.records import DraftTree, Lattice
from engine.registry import Table

Builder = Callable[[Lattice, int, int], DraftTree]  # (lattice, root token, drafted nodes) -> tree of one drafter

BUILDERS: Table[Builder] = Table("engine.decoding.builders", "chain", "best_first", "expand", "full")
