"""One mask for every architecture: transformers' models all take a mask of four dimensions, but only some a mask for
each kind of layer."""

from __future__ import annotations

import torch
from torch import Tensor

MASK_PER_KIND = frozenset({"qwen2", "qwen3"})  # these take a mask for each kind of layer, None for a causal one


def additive(seen: Tensor, committed: int, like: Tensor) -> Tensor:
    """The additive mask (1, 1, rows, committed + drafted) of ``seen`` (rows, drafted) bool, in the dtype of ``like``:
    committed positions are visible to all rows."""
    rows, drafted = seen.shape
    mask = torch.zeros(rows, committed + drafted, dtype=like.dtype, device=like.device)
    mask[:, committed:].masked_fill_(~seen, -torch.inf)
    return mask[None, None]


def causal(rows: int, committed: int, like: Tensor) -> Tensor:
    """The additive mask (1, 1, rows, committed + rows) of tokens that follow one another after ``committed`` ones, in
    the dtype of ``like``."""
    return additive(torch.ones(rows, rows, dtype=torch.bool, device=like.device).tril(), committed, like)
