"""Accepts each node by the ratio of target to drafter (paper 003, "Accept/Reject: Walking the Tree"). Biased."""

from __future__ import annotations

import numpy as np

from engine.decoding.acceptance import Residual
from engine.decoding.acceptance.walk import longest_path
from engine.records import Acceptance, DraftTree, Trials, Verification


def ratio(tree: DraftTree, verification: Verification, residual: Residual, random: np.random.Generator) -> Acceptance:
    """BIASED, for study: every drafted node passes with min(1, p/q), and the longest passed path is kept.

    p is the target's probability of the node's token, q the drafter's, both given its path. Speculative sampling
    is exact with this ratio when the children were drawn from q; here they are the most likely tokens, so they
    come out too often, and among several passed siblings the longer path is preferred. The bonus is the target's
    choice at the deepest kept node, as in the paper; where no child of the root passed, it is drawn from
    max(p − q, 0) over the vocabulary, renormalised, where q is known only at the root's children.
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
    tokens, places = np.unique(tree.tokens[first], return_index=True)
    return Acceptance(keep, residual.redraw(0, tokens, drafter[first][places], random.random()), trials)
