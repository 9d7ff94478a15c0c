"""Follows the target's choices down the tree (paper 000, section 6.1; paper 002, section 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.decoding.acceptance import Residual
from engine.decoding.tree import path_to
from engine.records import Acceptance, DraftTree, Integers, Verification


def walk(tree: DraftTree, verification: Verification, residual: Residual, random: np.random.Generator) -> Acceptance:
    """Keep the longest path whose every token is the target's choice at its parent; its last choice is the bonus.

    Exact at any temperature, provided that equal prefixes share one choice: then siblings with the same token
    (disjoint ``merged`` has them) have the same choices below them, and the longest match is the one text that the
    target would have written. Where equally long matches differ, the lowest index wins.
    """
    return Acceptance(*follow_choices(tree.parents, tree.tokens, verification.at))


def longest_path(parents: Integers, accepted: NDArray[np.bool_]) -> Integers:
    """The path from the root to the deepest node that is accepted with all its ancestors, (a,) int32; accepted (n,)
    bool, the root counting as accepted."""
    return follow_choices(parents, accepted, lambda _: True)[0]


def follow_choices(parents: Integers, tokens: NDArray[Any], at: Callable[[int], int]) -> tuple[Integers, int]:
    """The longest path from the root on which every token (n,) is the choice ``at`` its parent, (a,) int32, and the
    choice at its end. ``at`` is called only for nodes on such paths."""
    choices, depth = {0: at(0)}, {0: 0}
    deepest = 0
    for node, (parent, token) in enumerate(zip(parents.tolist(), tokens.tolist(), strict=True)):
        if choices.get(parent) == token and node:
            choices[node], depth[node] = at(node), depth[parent] + 1
            if depth[node] > depth[deepest]:
                deepest = node
    return path_to(parents, deepest), choices[deepest]
