"""Steps of a server as rounds: each a chain of which the root and the accepted tokens are known by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.recorder import UNKNOWN_TOKEN
from engine.records import Acceptance, DraftTree, Round, Verification
from engine.servers.answer import Token
from engine.servers.steps import Step
from engine.trace.rounds import NOT_RECORDED


def chain_round(index: int, start: int, tokens: Sequence[Token], drafted: int) -> Round:
    """``tokens`` are the root, what was accepted and the target's own; of ``drafted`` tokens those that were rejected
    are nobody's. ``start`` is the length of the cache before the round."""
    kept = len(tokens) - 1
    size = 1 + max(drafted, kept - 1)
    ids = np.full(size, UNKNOWN_TOKEN, np.int32)
    ids[:kept] = [token.id for token in tokens[:-1]]
    choice, chosen, offered = np.full(size, NOT_RECORDED, np.int32), _unknown(size), _unknown(size)
    choice[:kept] = [token.id for token in tokens[1:]]
    chosen[:kept] = [token.logprob for token in tokens[1:]]
    offered[1:kept] = chosen[:kept - 1]
    offered[0] = 0
    heads = np.ones(size, np.int32)
    heads[0] = 0
    logprobs = _unknown(size)
    logprobs[0] = 0
    tree = DraftTree(ids, np.maximum(np.arange(size, dtype=np.int32) - 1, 0), logprobs, heads)
    verification = Verification(choice, chosen, _unknown(size), _unknown(size), offered, _unknown(size))
    return Round(index, start, (), (), tree, verification,
                 Acceptance(np.arange(kept, dtype=np.int32), tokens[-1].id))


def rounds_of(prompt_tokens: int, text: Sequence[Token], steps: Sequence[Step]) -> list[Round]:
    """The rounds of a text whose first token came from reading the prompt."""
    found: list[Round] = []
    place = 0
    for step in steps:
        tokens = text[place:place + step.written + 1]
        found.append(chain_round(len(found), prompt_tokens + place, tokens, step.drafted))
        place += step.written
    return found


def _unknown(size: int) -> np.ndarray:
    return np.full(size, np.nan, np.float32)
