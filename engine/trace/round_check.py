"""Checks that a round from an untrusted file is sound: every index into an array has to point inside it."""

from __future__ import annotations

import numpy as np

from engine.records import DraftTree, Lattice, Round
from engine.trace.limits import LARGEST, MOST_CELLS, MOST_DRAFTERS, MOST_NODES


def check_round(made: Round) -> None:
    """Raise ValueError that says what is wrong, so that a bad round is refused on loading, not later on the page."""
    for tree in (made.tree, *made.candidates):
        _check_tree(tree)
    for draft in made.drafts:
        _check_lattice(draft)
    if made.start + len(made.tree) > LARGEST:
        raise ValueError(f"a start of {made.start}, after which no position is left")
    size, keep, trials = len(made.tree), made.acceptance.keep, made.acceptance.trials
    if len(made.verification.choice) != size:
        raise ValueError(f"a verification of {len(made.verification.choice)} rows for a tree of {size}")
    if (made.verification.choice < -1).any():
        raise ValueError("a choice below -1, which stands for one that was not recorded")
    _check_finite(made)
    if keep.ndim != 1 or len(keep) == 0 or keep[0] != 0 or (keep[1:] < 1).any() or (keep >= size).any():
        raise ValueError(f"keep-indices that do not fit a tree of {size} rows")
    if (made.tree.parents[keep[1:]] != keep[:-1]).any():
        raise ValueError("keep-indices that are not a path from the root")
    if trials is not None and ((trials.nodes < 1) | (trials.nodes >= size)).any():
        raise ValueError(f"trials of nodes that a tree of {size} rows does not have")


def _check_finite(made: Round) -> None:
    """A log probability may be −inf, and any number may be NaN, which stands for one that was not recorded."""
    said, trials = made.verification, made.acceptance.trials
    trees = (made.tree, *made.candidates)
    logprobs = [said.logprobs, said.offered, said.processed, *(tree.logprobs for tree in trees),
                *(draft.logprobs for draft in made.drafts)]
    if any((array > 1.0).any() for array in logprobs):  # 0, and what rounding adds to it
        raise ValueError("a log probability above 0")
    others = [said.entropy, *([trials.chances, trials.draws] if trials else [])]
    if any(np.isinf(array).any() for array in others) or np.isneginf(said.gap).any():
        raise ValueError("an infinite entropy, gap, chance or draw")


def _check_tree(tree: DraftTree) -> None:
    above = tree.parents
    if len(tree) > MOST_NODES:
        raise ValueError(f"a tree of {len(tree):,} nodes, where {MOST_NODES:,} are allowed")
    if (tree.tokens < 0).any() or (tree.drafters < 0).any() or (tree.drafters >= 1 << MOST_DRAFTERS).any():
        raise ValueError("a tree with a token below 0, or a drafter that does not exist")
    if len(tree) == 0 or above[0] != 0 or (above < 0).any() or (above[1:] >= np.arange(1, len(tree))).any():
        raise ValueError("a tree whose parents do not come before their children")


def _check_lattice(draft: Lattice) -> None:
    if draft.tokens.size > MOST_CELLS:
        raise ValueError(f"a lattice of {draft.tokens.size:,} cells, where {MOST_CELLS:,} are allowed")
    if (draft.tokens < 0).any():
        raise ValueError("a lattice with a token below 0")
    if ((draft.follow < 0) | (draft.follow >= draft.follow.shape[1])).any():
        raise ValueError("a lattice that leads to rows that it does not have")
