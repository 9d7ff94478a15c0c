"""Tree attention through transformers' own layers.

Transformers builds the mask of each kind of layer (full, sliding, chunked) from a rule about two positions, with a
function from a registry. ``tree_mask`` applies the rule to the positions of a tree's rows, and lets a row see only its
own path. So windows of any size, in any layers, work in trees too.
"""

import sys
from collections.abc import Callable
from inspect import getsource
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask

FUSED, EAGER = "tree_sdpa", "tree_eager"  # names of attention implementations


def tree_mask(*, mask_function: Any, attention_mask: Tensor, dtype: torch.dtype, **_: Any) -> Tensor:
    """Make a tree's additive mask (1, 1, rows, slots). ``attention_mask`` (1, rows, slots) bool says which slots are on
    a row's path, so its position is their number minus 1. The rows' own slots are the last."""
    rows, slots = attention_mask.shape[1:]
    positions = attention_mask[0].sum(-1) - 1
    by_slot = torch.cat([torch.arange(slots - rows, device=positions.device), positions])
    # rows last, since the rule of chunks subtracts, for each row of the mask, its padding on the left: none
    visible = mask_function(0, 0, positions[None], by_slot[:, None]).T & attention_mask[0]
    return torch.zeros(1, 1, rows, slots, dtype=dtype, device=visible.device).masked_fill_(~visible, -torch.inf)


def tree_mask_or(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Return a builder of a tree's mask if ``attention_mask`` is that of ``tree_mask``, else of the usual mask."""
    def build(**kwargs: Any) -> Any:
        mask = kwargs["attention_mask"]
        return (tree_mask if mask is not None and mask.ndim == 3 else usual)(**kwargs)
    return build


def eager_attention(module: Any, *states: Any, **options: Any) -> Any:
    """Call the attention function of the module's own file, which handles its sinks, caps and biases."""
    return sys.modules[type(module).__module__].eager_attention_forward(module, *states, **options)


AttentionInterface.register(FUSED, sdpa_attention_forward)
AttentionInterface.register(EAGER, eager_attention)
AttentionMaskInterface.register(FUSED, tree_mask_or(sdpa_mask))
AttentionMaskInterface.register(EAGER, tree_mask_or(eager_mask))


def takes_windows(model: type[PreTrainedModel]) -> bool:
    """Return whether a class lets transformers' registry build its masks, a tree's included."""
    source = getsource(sys.modules[model.__module__])
    return bool(model._supports_attention_backend) and "attention_mask.view(batch_size, -1)" not in source
