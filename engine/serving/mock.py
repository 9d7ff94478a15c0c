"""Mock rounds for timing passes: their trees are not drafted, and only the root of each is committed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.decoding.acceptance import Residual
from engine.decoding.acceptance.walk import walk
from engine.decoding.budget_policy import FixedBudget
from engine.decoding.builders import Builder
from engine.decoding.combiners.only import only
from engine.decoding.loop import RequestRun
from engine.decoding.methods import whole
from engine.decoding.plan import Drafter, Plan, Target
from engine.decoding.tree import plant
from engine.records import Acceptance, DraftTree, Integers, Lattice, Request, Verification

CHAIN = 15  # so many nodes form a chain, as deep as a drafter's block; the others branch off as in a draft tree
ROOT: Integers = np.zeros(1, np.int32)


class MockPace(FixedBudget):
    """A ``BudgetPolicy`` whose rounds have as many nodes as ``nodes`` says at the time."""

    def __init__(self) -> None:
        self.nodes = 0

    def opens(self, drafters: int, budget: int) -> tuple[int, int]:
        return drafters, self.nodes


class MockRun(RequestRun):
    """A request whose rounds verify mock trees of any size and commit only the root."""

    def __init__(self, request: Request, target: Target, drafter: Drafter | None) -> None:
        self.pace = MockPace()
        build: Builder = _mock
        serving = (drafter,) if drafter else ()
        super().__init__(Plan(request, serving, build, only, _root_kept, whole, self.pace), target)


def mock_tree(root: int, rows: int) -> DraftTree:
    """A tree of ``rows`` rows as deep as a drafter's block: a chain, then four children per node."""
    nodes = np.arange(1, rows, dtype=np.int32)
    parents = np.where(nodes <= CHAIN, nodes - 1, (nodes - CHAIN - 1) // 4).astype(np.int32)
    return plant(root, np.full(rows - 1, root, np.int32), parents, np.zeros(rows - 1, np.float32))


def _mock(_: Lattice, root: int, nodes: int) -> DraftTree:
    return mock_tree(root, nodes + 1)


def _root_kept(tree: DraftTree, verification: Verification, residual: Residual,
               random: np.random.Generator) -> Acceptance:
    """Walk as a real round would, for its time, then keep only the root, which is the next tree's root again."""
    return replace(walk(tree, verification, residual, random), keep=ROOT, bonus=int(tree.tokens[0]))
