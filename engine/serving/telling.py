"""Sentences and tokens that are reported with a run besides its rounds."""

from __future__ import annotations

import numpy as np

from engine.records import Integers, Request, Round


def shared_rounds_sentence(shared: int, count: int, others: int) -> str:
    """The sentence for a run that shared rounds with others: its speed is not that of a run alone."""
    if not shared:
        return ""
    whom = "another run" if others == 1 else f"up to {others} other runs"
    return f"It shared {shared} of its {count} rounds with {whom}, so its speed is not that of a run alone."


def request_in_words(request: Request) -> str:
    """What a run asked the device for, in words that complete an error's sentence."""
    return f"at a budget of {request.budget} nodes and {len(request.prompt_ids)} prompt tokens"


def token_ids(made: Round) -> Integers:
    """Every token that a round shows, (n,) int32 with repeats: proposals, nodes, choices, and the bonus token."""
    return np.concatenate([
        *(draft.tokens.ravel() for draft in made.drafts), *(tree.tokens for tree in made.candidates), made.tree.tokens,
        made.verification.choice, [made.acceptance.bonus]], dtype=np.int32)
