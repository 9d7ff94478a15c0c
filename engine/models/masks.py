"""One mask for every architecture: transformers' models all take a mask of four dimensions, but only some a mask for
each kind of layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

MASK_PER_KIND = frozenset({"qwen2", "qwen3"})  # these take a mask for each kind of layer, None for a causal one


def take_any_mask(model: PreTrainedModel) -> None:
    """Let the model accept masks as the target's passes give them: one for each kind of layer, all the same.

    An additive mask is passed on as it is; without one, the rows are taken to follow one another after the cache.
    """
    if model.config.get_text_config().model_type not in MASK_PER_KIND:
        model.register_forward_pre_hook(_unfolded, with_kwargs=True)


def _unfolded(model: PreTrainedModel, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
    masks = named.get("attention_mask")
    if isinstance(masks, Mapping):
        mask = next(iter(masks.values()))
        if mask is None:
            like = torch.empty(0, dtype=model.dtype, device=named["input_ids"].device)
            mask = causal(named["input_ids"].shape[1], named["past_key_values"].get_seq_length(), like)
        named["attention_mask"] = mask
    return given, named


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
