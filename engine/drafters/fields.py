"""Shared by several kinds of drafters: which config fields are unused, and draft heads over a reduced vocabulary.

A drafter's tensors must have exactly the names and shapes that its kind expects. So a field that would bring other
tensors changes nothing in a drafter that loads; nor does one that only training reads.
"""

import re
from collections.abc import Mapping, Set
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from engine.checkpoints.files import display_name
from engine.drafters.kinds import THINKING, is_switched_off, refuse_unknown
from engine.errors import RigError

# Of every kind: fields of training, and older names of fields that transformers renames.
IGNORED_FIELDS = frozenset({THINKING, "auto_map", "draft_vocab_size", "torch_dtype", "rope_theta", "rope_scaling",
                            "pretraining_tp", "tokenizer_class"})
# Copied from the target or left by a trainer, whatever their value.
UNUSED_FIELDS = re.compile("|".join((
    "(max|num)_anchors", "confidence_head_alpha", r"\w+_loss_(weight|coef|alpha)", r"loss_\w+",  # of training
    r"linear_\w+", "full_attention_interval", r"mamba_\w+", r"ssm_\w+", r"conv_L_cache",  # of recurrent layers
    r"num_experts\w*", r"moe_\w+", r"shared_expert_\w+", r"router_\w+", "norm_topk_prob", "decoder_sparse_step",
    "mlp_only_layers", "output_router_logits", r"mtp_\w+", "attn_output_gate",  # of parts with tensors of their own
    r"(use_)?mrope\w*", r"(image|video|audio|vision)_\w+")))  # of pictures: all sections of a text are equal
# Field values that only repeat the tensors' shapes.
SHAPE_FIELDS: Mapping[str, tuple[object, ...]] = MappingProxyType({"attention_mode": ("gqa", "mha", "mqa")})
# A false value leaves these parts out; other fields that are false are refused.
OPTIONAL_PARTS = re.compile(
    "bias|gate|gating|sink|conv|swa|slid|cache|dropout|checkpointing|confidence|markov|vision|mtp|lora")
# Fields and the value with which they choose interleaved RoPE: it rotates neighbouring numbers of a head as a pair.
ROTARY_STYLES: Mapping[str, bool] = MappingProxyType({
    "rope_is_neox_style": False, "is_neox_style": False, "rope_interleave": True, "rope_interleaved": True,
    "rope_traditional": True})
ROTARY_WEIGHTS = re.compile(r"self_attn\.(q|k)_(proj\.(weight|bias)|norm\.weight)$")


def unread_fields(values: Mapping[str, Any], model: type[PreTrainedConfig], ignored: Set[str]) -> dict[str, Any]:
    """Return the fields of a config.json that are neither in transformers' config of the model nor in ``ignored``."""
    known = PreTrainedConfig().to_dict().keys() | model().to_dict().keys() | IGNORED_FIELDS | ignored
    return {name: value for name, value in values.items() if name not in known}


def ignored_note(folder: Path, fields: Mapping[str, Any]) -> str:
    """Return a sentence about the fields that can be ignored; "" if there are none. RigError names the others."""
    ignored, refused = set(), {}
    for name, value in fields.items():
        unused = UNUSED_FIELDS.fullmatch(name)
        if name in ROTARY_STYLES or (is_switched_off(value) and value is not False):
            continue
        if value is False and (unused or OPTIONAL_PARTS.search(name)):
            continue
        if unused or value in SHAPE_FIELDS.get(name, ()):
            ignored.add(name)
        else:
            refused[name] = "false" if value is False else value
    refuse_unknown(folder, refused)
    names = ", ".join(sorted(ignored))
    return names and f"Ignored in config.json of {display_name(folder)}, because its tensors do not use it: {names}."


def uses_interleaved_rope(fields: Mapping[str, Any]) -> bool:
    """Return whether the rotary embedding rotates neighbouring numbers of a head as a pair."""
    return any(fields[name] is value for name, value in ROTARY_STYLES.items() if name in fields)


def interleaved_to_neox(weights: Mapping[str, Tensor], head_size: int) -> dict[str, Tensor]:
    """Reorder the numbers of query and key heads, so that a pair's are half a head apart (GPT-NeoX's layout). Products
    of queries and keys stay the same."""
    return _reorder_heads(weights, torch.arange(head_size).view(-1, 2).T.flatten())


def neox_to_interleaved(weights: Mapping[str, Tensor], head_size: int) -> dict[str, Tensor]:
    """Reorder the other way."""
    return _reorder_heads(weights, torch.arange(head_size).view(2, -1).T.flatten())


def _reorder_heads(weights: Mapping[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    return {name: value.unflatten(0, (-1, len(order)))[:, order].flatten(0, 1) if ROTARY_WEIGHTS.search(name) else value
            for name, value in weights.items()}


def draft_token_ids(folder: Path, weights: dict[str, Tensor], size: int, vocabulary: int) -> Tensor | None:
    """Take ``d2t`` out of the weights; return the target's id of each of ``size`` draft ids, (size,) int64, or None for
    the whole vocabulary. RigError if the map does not fit."""
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
    """Spread logits (…, draft vocabulary) over the target's vocabulary, ``absent`` for other tokens."""
    return logits.new_full((*logits.shape[:-1], vocabulary), absent).index_copy_(-1, token_ids, logits)
