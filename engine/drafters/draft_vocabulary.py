"""A drafter that proposes a part of the target's vocabulary: its head has a row for each of these tokens, and ``d2t``
says which they are. All others have probability 0."""

from pathlib import Path

import torch
from torch import Tensor

from engine.checkpoints.files import display_name
from engine.errors import RigError


def draft_token_ids(folder: Path, weights: dict[str, Tensor], size: int, vocabulary: int) -> Tensor | None:
    """Take ``d2t`` out of the weights, and return the target's id of each of ``size`` draft ids, (size,) int64; None if
    a drafter of the whole vocabulary has no such map. RigError if the map does not fit."""
    offsets = weights.pop("d2t", None)  # each id less its place
    weights.pop("t2d", None)  # the same map from the other side
    if offsets is None and size == vocabulary:
        return None
    if offsets is None or tuple(offsets.shape) != (size,):
        shape = "nothing" if offsets is None else tuple(offsets.shape)
        raise RigError(f"The drafter in {display_name(folder)} proposes {size} tokens of {vocabulary}: its tensor d2t, "
                       f"which says which they are, has shape {shape}; {(size,)} is expected.")
    token_ids = offsets.long() + torch.arange(size)
    outside = token_ids[(token_ids < 0) | (token_ids >= vocabulary)]
    if len(outside):
        raise RigError(f"The vocabulary map d2t in {display_name(folder)} leads to token {int(outside[-1])}; the "
                       f"target has {vocabulary} tokens.")
    return token_ids


def over_vocabulary(logits: Tensor, token_ids: Tensor, vocabulary: int, absent: float = -torch.inf) -> Tensor:
    """Logits (…, draft vocabulary) over the target's vocabulary, ``absent`` for tokens without a draft id."""
    return logits.new_full((*logits.shape[:-1], vocabulary), absent).index_copy_(-1, token_ids, logits)
