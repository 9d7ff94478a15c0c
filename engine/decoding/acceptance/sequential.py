"""Tries the children one after the other, with removal and renormalisation (papers 000 and 001, section 6.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.decoding.acceptance import Residual
from engine.records import Acceptance, DraftTree, Integers, Trials, Verification

Trial = tuple[int, float, float]  # a node, its chance, and the draw that decided


def sequential(
    tree: DraftTree, verification: Verification, residual: Residual, random: np.random.Generator,
) -> Acceptance:
    """At each node, try its children in tree order; descend into the first that is accepted, else draw from the rest.

    The children are given, not drawn, so child x is accepted with p(x) / (1 − mass of the tokens tried before):
    x is the next token with chance p(x) exactly. A token tried before has no mass left, so a second sibling with
    it never passes. When all have failed, the bonus comes from p without them, renormalised. At temperature 0 a
    mass is 0 or 1 and this is the greedy walk.

    The choice that the target has made at a node with children is not used: it was drawn from all of p, and to
    take it after failed trials would give the failed tokens a second chance. At a leaf nothing was tried, so the
    target's choice there is a plain draw from p, and it is the bonus. (Where float32 masses of tried tokens add up
    to 1 within rounding and all trials still fail, a chance of about 1e-7, the bonus is drawn from p.)
    """
    masses = np.exp(verification.processed, dtype=np.float64)
    path, trials, bonus = [0], list[Trial](), None
    while bonus is None and len(children := children_of(tree, path[-1])):
        if accepted := first_accepted(children, tree.tokens[children], masses[children], random, trials):
            path.append(accepted)
        else:
            tokens = np.unique(tree.tokens[children])
            bonus = residual.redraw(path[-1], tokens, np.ones(len(tokens), np.float32), random.random())
    if bonus is None:
        bonus = int(verification.choice[path[-1]])
    nodes, chances, draws = zip(*trials, strict=True) if trials else ((), (), ())
    return Acceptance(np.asarray(path, np.int32), bonus, Trials(
        np.asarray(nodes, np.int32), np.asarray(chances, np.float32), np.asarray(draws, np.float32)))


def children_of(tree: DraftTree, node: int) -> NDArray[np.intp]:
    """The children of ``node``, (n,) in tree order; the root, whose own parent is written as 0, is not one."""
    return np.flatnonzero(tree.parents[1:] == node) + 1


def first_accepted(children: NDArray[np.intp], tokens: Integers, masses: NDArray[np.float64],
                   random: np.random.Generator, trials: list[Trial]) -> int:
    """The first of ``children`` whose draw lies below its chance, or 0; the numbers that were compared go to
    ``trials``. ``tokens`` are the tree's, ``masses`` their probabilities under the target."""
    tried: set[int] = set()
    left = 1.0
    for node, token, mass in zip(children.tolist(), tokens.tolist(), masses.tolist(), strict=True):
        fresh = 0.0 if token in tried else mass
        chance = float(np.float32(min(1.0, fresh / left) if left > 0 else 0))
        draw = float(random.random(dtype=np.float32))
        trials.append((node, chance, draw))
        if draw < chance:
            return int(node)
        tried.add(token)
        left -= fresh
    return 0
