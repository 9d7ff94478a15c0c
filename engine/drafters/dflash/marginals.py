"""A block's logits as a lattice: one distribution for each depth."""

from __future__ import annotations

import numpy as np
from torch import Tensor, arange, cat, float32

from engine.records import Lattice

BLOCK = 32  # tokens per block; the best of each is found first
LARGE = 8 * BLOCK  # times the width: in a smaller vocabulary all tokens are compared at once


def marginals(logits: Tensor, width: int) -> Lattice:
    """The lattice of logits (depth, vocabulary): the ``width`` likeliest tokens of each depth, normalised before the
    cut."""
    logprobs, tokens = likeliest_tokens(logits, width)
    ids = tokens.cpu().numpy()[:, None].astype(np.int32)
    return Lattice(ids, logprobs.cpu().numpy()[:, None], np.zeros_like(ids))


def likeliest_tokens(logits: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Log probabilities float32, descending, and tokens int64 of each row of logits (rows, vocabulary): (rows, width)
    each."""
    logprobs, width = logits.log_softmax(-1, float32), min(width, logits.shape[-1])
    if logits.device.type == "cpu" and logits.shape[-1] >= LARGE * width:
        return _among_the_best_blocks(logprobs, width)
    best = logprobs.topk(width, -1)
    return best.values, best.indices


def _among_the_best_blocks(logprobs: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """``likeliest_tokens`` for a large vocabulary: each of the ``width`` best tokens lies in one of the ``width``
    blocks with the best maxima. Block i holds the tokens i, i + blocks, i + 2 · blocks, …, so that maxima are taken
    over whole rows; tokens left over are compared, too."""
    vocabulary = logprobs.shape[-1]
    blocks = vocabulary // BLOCK
    whole = blocks * BLOCK
    best = logprobs[:, :whole].unflatten(-1, (BLOCK, blocks)).amax(1).topk(width, -1, sorted=False).indices
    inside = (best[:, None] + blocks * arange(BLOCK)[:, None]).flatten(1)
    places = cat([inside, arange(whole, vocabulary).expand(len(logprobs), -1)], -1)
    top = logprobs.gather(-1, places).topk(width, -1)
    return top.values, places.gather(-1, top.indices)
