"""Is a round from a stranger's file sound? Everything that indexes an array has to point inside it."""

from __future__ import annotations

import numpy as np

from engine.records import DraftTree, Lattice, Round


def check_round(made: Round) -> None:
    """ValueError with what is wrong, so that it is refused on loading and not met later on the page."""
    for tree in (made.tree, *made.candidates):
        _check_tree(tree)
    for draft in made.drafts:
        _check_lattice(draft)
    size, keep, trials = len(made.tree), made.acceptance.keep, made.acceptance.trials
    if len(made.verification.choice) != size:
        raise ValueError(f"a verification of {len(made.verification.choice)} rows for a tree of {size}")
    if keep.ndim != 1 or len(keep) == 0 or keep[0] != 0 or (keep[1:] < 1).any() or (keep >= size).any():
        raise ValueError(f"keep-indices that do not fit a tree of {size} rows")
    if (made.tree.parents[keep[1:]] != keep[:-1]).any():
        raise ValueError("keep-indices that are no path from the root")
    if trials is not None and ((trials.nodes < 1) | (trials.nodes >= size)).any():
        raise ValueError(f"trials of nodes that a tree of {size} rows does not have")


def _check_tree(tree: DraftTree) -> None:
    above = tree.parents
    if len(tree) == 0 or above[0] != 0 or (above < 0).any() or (above[1:] >= np.arange(1, len(tree))).any():
        raise ValueError("a tree whose parents do not come before their children")


def _check_lattice(draft: Lattice) -> None:
    if ((draft.follow < 0) | (draft.follow >= draft.follow.shape[1])).any():
        raise ValueError("a lattice that leads to rows that it does not have")
