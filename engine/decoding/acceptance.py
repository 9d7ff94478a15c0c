"""Acceptance rules: from the target's verification of a tree, the rows to keep and the bonus token."""

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
    """Keep the longest path on which every token is the target's choice at its parent; the bonus is the choice at its
    end (paper 000, section 6.1; paper 002, section 4.4).

    This is exact at any temperature, provided that equal prefixes share one choice. Then siblings with the same token,
    as in ``merged``, have the same choices below them, and the longest match is the text that the target would write.
    Among equally long matches, the one with the lowest index is kept.
    """
    return Acceptance(*follow_choices(tree.parents, tree.tokens, verification.at))


def longest_path(parents: Integers, accepted: NDArray[np.bool_]) -> Integers:
    """Return the path from the root to the deepest node that is accepted with all its ancestors, (a,) int32; the root
    always counts as accepted."""
    return follow_choices(parents, accepted, lambda _: True)[0]


def follow_choices(parents: Integers, tokens: NDArray[Any], at: Callable[[int], int]) -> tuple[Integers, int]:
    """Return the longest path from the root whose every token is the choice at its parent, and the choice at its end.
    ``at`` gives a node's choice; it is called only for nodes whose path follows the choices."""
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
    """Try a node's children in order, and descend into the first that passes; if none does, draw the bonus from the
    rest (papers 000 and 001, section 6.2).

    Child x passes with probability p(x) / (1 − p of the tokens tried before), so x is the next token with probability
    p(x) exactly. A second sibling with the same token never passes. If all fail, the bonus is drawn from p without
    them, renormalised. At temperature 0 every p is 0 or 1, and this equals ``walk``.

    The target's choice at a node with children is not used: it was drawn from all of p, so using it after failed trials
    would give the failed tokens a second chance. At a leaf nothing was tried, so the target's choice is the bonus. If
    the tried tokens' float32 probabilities sum to 1 by rounding and all fail (probability about 1e-7), the bonus is
    drawn from p.
    """
    masses = np.exp(verification.processed, dtype=np.float64)
    path, trials, bonus = [0], list[Trial](), None
    while bonus is None:
        children = np.flatnonzero(tree.parents[1:] == path[-1]) + 1  # the root, whose parent is 0 too, is none
        tokens = tree.tokens[children]
        if not len(children):
            bonus = int(verification.choice[path[-1]])
            break
        tried, remaining, end = set[int](), 1.0, path[-1]
        for node, token, mass in zip(children.tolist(), tokens.tolist(), masses[children].tolist(), strict=True):
            probability = 0.0 if token in tried else mass
            chance = float(np.float32(min(1.0, probability / remaining) if remaining > 0 else 0))
            draw = float(random.random(dtype=np.float32))
            trials.append((node, chance, draw))
            if draw < chance:
                path.append(node)
                break
            tried.add(token)
            remaining -= probability
        if path[-1] == end:
            tokens = np.unique(tokens)
            bonus = redraw(end, tokens, np.ones(len(tokens), np.float32), random.random())
    nodes, chances, draws = zip(*trials, strict=True) if trials else ((), (), ())
    return Acceptance(np.asarray(path, np.int32), bonus, Trials(
        np.asarray(nodes, np.int32), np.asarray(chances, np.float32), np.asarray(draws, np.float32)))


def ratio(tree: DraftTree, verification: Verification, redraw: Redraw, random: np.random.Generator) -> Acceptance:
    """BIASED, for study: accept each drafted node with probability min(1, p/q), and keep the longest passed path (paper
    003, "Accept/Reject: Walking the Tree").

    p is the target's probability of the node's token, q the drafter's, both given its path. The ratio is exact if
    children are drawn from q. Here they are the most likely tokens, so they are accepted too often, and among siblings
    that pass, the longer path wins. As in the paper, the bonus is the target's choice at the deepest kept node; if no
    child of the root passes, it is drawn from max(p − q, 0), renormalised, with q known only at the root's children.
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
