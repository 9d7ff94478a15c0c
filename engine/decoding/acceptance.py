"""Acceptance rules: from the target's verification of a tree, the rows to keep and the bonus token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.decoding.tree import path_to
from engine.records import Acceptance, DraftTree, Floats, Integers, Trials, Verification

Redraw = Callable[[int, Integers, Floats, float], int]  # the target's ``redraw``, see ``protocols.Target``
AcceptanceRule = Callable[[DraftTree, Verification, Redraw, np.random.Generator], Acceptance]
Trial = tuple[int, float, float]  # a node, its chance, and the draw that decided


def walk(tree: DraftTree, verification: Verification, redraw: Redraw, random: np.random.Generator) -> Acceptance:
    """Keep the longest path whose every token is the target's choice at its parent; its last choice is the bonus (paper
    000, section 6.1; paper 002, section 4.4).

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


def sequential(
    tree: DraftTree, verification: Verification, redraw: Redraw, random: np.random.Generator,
) -> Acceptance:
    """At each node, try its children in tree order; descend into the first that is accepted, else draw from the rest
    (papers 000 and 001, section 6.2).

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
    while bonus is None:
        children = np.flatnonzero(tree.parents[1:] == path[-1]) + 1  # the root, whose parent is 0 too, is none
        tokens = tree.tokens[children]
        if not len(children):
            bonus = int(verification.choice[path[-1]])
            break
        tried, left, end = set[int](), 1.0, path[-1]
        for node, token, mass in zip(children.tolist(), tokens.tolist(), masses[children].tolist(), strict=True):
            fresh = 0.0 if token in tried else mass
            chance = float(np.float32(min(1.0, fresh / left) if left > 0 else 0))
            draw = float(random.random(dtype=np.float32))
            trials.append((node, chance, draw))
            if draw < chance:
                path.append(node)
                break
            tried.add(token)
            left -= fresh
        if path[-1] == end:
            tokens = np.unique(tokens)
            bonus = redraw(end, tokens, np.ones(len(tokens), np.float32), random.random())
    nodes, chances, draws = zip(*trials, strict=True) if trials else ((), (), ())
    return Acceptance(np.asarray(path, np.int32), bonus, Trials(
        np.asarray(nodes, np.int32), np.asarray(chances, np.float32), np.asarray(draws, np.float32)))


def ratio(tree: DraftTree, verification: Verification, redraw: Redraw, random: np.random.Generator) -> Acceptance:
    """BIASED, for study: every drafted node passes with min(1, p/q), and the longest passed path is kept
    (paper 003, "Accept/Reject: Walking the Tree").

    p is the target's probability of the node's token, q the drafter's, both given its path. Speculative sampling
    is exact with this ratio when the children were drawn from q; here they are the most likely tokens, so they
    come out too often, and among several passed siblings the longer path is preferred. The bonus is the target's
    choice at the deepest kept node, as in the paper; if no child of the root passed, it is drawn from
    max(p − q, 0) over the vocabulary, renormalised; q is known only at the root's children.
    """
    drafter = np.exp(tree.logprobs - tree.logprobs[tree.parents])
    chances = np.minimum(np.exp(verification.processed) / drafter, np.float32(1))
    draws = random.random(len(tree) - 1, dtype=np.float32)
    accepted = np.concatenate([np.ones(1, np.bool_), draws < chances[1:]])
    keep = longest_path(tree.parents, accepted)
    trials = Trials(np.arange(1, len(tree), dtype=np.int32), chances[1:], draws)
    first = np.flatnonzero(tree.parents[1:] == 0) + 1
    if len(keep) > 1 or len(first) == 0:
        return Acceptance(keep, int(verification.choice[keep[-1]]), trials)
    tokens, siblings = np.unique(tree.tokens[first], return_index=True)
    return Acceptance(keep, redraw(0, tokens, drafter[first][siblings], random.random()), trials)
