"""Makes a round of a server's step: a chain in which only the root and the accepted tokens are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.recorder import UNKNOWN_TOKEN
from engine.records import Acceptance, DraftTree, Round, Verification
from engine.servers.answer import Token
from engine.servers.report import MOST_DRAFTED
from engine.servers.steps import ServerStep
from engine.trace.rounds import NOT_RECORDED


def chain_round(index: int, start: int, tokens: Sequence[Token], step: ServerStep) -> Round:
    """The round of a step. ``tokens`` are the root, the accepted tokens and the bonus token; rejected drafted tokens
    are unknown. ``start`` is the length of the cache before the round. Where the end of the text cut the step, its last
    token is a drafted child of the last kept row. Its rows are those of the tokens, and of ``MOST_DRAFTED`` at most."""
    kept = len(tokens) - 1
    known = tokens if step.cut else tokens[:-1]
    size = max(1 + min(step.drafted, MOST_DRAFTED), len(known))
    ids = np.full(size, UNKNOWN_TOKEN, np.int32)
    ids[:len(known)] = [token.id for token in known]
    choice, chosen, offered = np.full(size, NOT_RECORDED, np.int32), _unknown(size), _unknown(size)
    choice[:kept] = [token.id for token in tokens[1:]]
    chosen[:kept] = [token.logprob for token in tokens[1:]]
    offered[1:len(known)] = chosen[:len(known) - 1]
    offered[0] = 0
    drafters = np.ones(size, np.int32)
    drafters[0] = 0
    logprobs = _unknown(size)
    logprobs[0] = 0
    tree = DraftTree(ids, np.maximum(np.arange(size, dtype=np.int32) - 1, 0), logprobs, drafters)
    verification = Verification(choice, chosen, _unknown(size), _unknown(size), offered, _unknown(size))
    return Round(index, start, (), (), tree, verification,
                 Acceptance(np.arange(kept, dtype=np.int32), tokens[-1].id))


def _unknown(size: int) -> np.ndarray:
    return np.full(size, np.nan, np.float32)
