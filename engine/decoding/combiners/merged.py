"""All drafters' trees as disjoint subtrees under one root (paper 000, sections 3.1 and 4.1)."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records import DraftTree


def merged(trees: tuple[DraftTree, ...], budget: int) -> DraftTree:
    """The tree of all drafters' nodes below one shared root: those of drafter 1, then those of drafter 2, and so on.

    φ shifts a later drafter's nodes by the number of nodes before them and leaves the root where it is: φ(0) = 0,
    φ(i) = n₁ + i, and π∪(φ(i)) = φ(π(i)). A prefix that two drafters propose is there twice; ``joint`` has it once.
    """
    shifts = list(accumulate((len(tree) - 1 for tree in trees), initial=0))
    parents = [np.where(tree.parents > 0, tree.parents + np.int32(shift), np.int32(0))
               for tree, shift in zip(trees, shifts, strict=False)]
    drafters = [tree.drafters << drafter for drafter, tree in enumerate(trees)]
    return DraftTree(
        _below_one_root([tree.tokens for tree in trees]), _below_one_root(parents),
        _below_one_root([tree.logprobs for tree in trees]), _below_one_root(drafters))


def _below_one_root(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """The first array whole, the others without their root."""
    return np.concatenate([arrays[0], *(array[1:] for array in arrays[1:])])
