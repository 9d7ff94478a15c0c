"""A block's logits as a lattice: one distribution for each depth."""

from __future__ import annotations

import numpy as np
from torch import Tensor, float32

from engine.records import Lattice


def marginals(logits: Tensor, width: int) -> Lattice:
    """Logits (depth, vocabulary) as a lattice of the ``width`` likeliest tokens, normalised before the cut."""
    logprobs, tokens = likeliest_tokens(logits, width)
    ids = tokens.cpu().numpy()[:, None].astype(np.int32)
    return Lattice(ids, logprobs.cpu().numpy()[:, None], np.zeros_like(ids))


def likeliest_tokens(logits: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Log probabilities float32, descending, and tokens int64 of each row of logits (rows, vocabulary): (rows, width)
    each."""
    found = logits.log_softmax(-1, float32).topk(min(width, logits.shape[-1]), -1)
    return found.values, found.indices
