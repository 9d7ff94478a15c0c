"""The drafter of EAGLE-3, with the tensor names and conventions of its published checkpoints.

A row stands for a position: it holds the target's fused features of that position (``fc`` of three tapped layers) and
the embedding of the token *after* it, and predicts what follows that token. At positions that the target has not read,
the parent row's output takes the place of features. Queries, keys and values are computed from both halves together.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding

from engine.drafters.dflash.model import Rotation, rotated


class Rows(NamedTuple):
    """Rows to run: hidden and embedded (rows, hidden size), the rotation of their positions, and the additive mask
    (1, 1, rows, committed + rows so far)."""

    hidden: Tensor
    embedded: Tensor
    rotation: Rotation
    mask: Tensor


class Eagle3Attention(nn.Module):
    """Attention whose inputs are twice as wide as its outputs."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.size = config.head_dim
        self.groups = config.num_attention_heads // config.num_key_value_heads
        hidden, bias = config.hidden_size, config.attention_bias
        self.q_proj = nn.Linear(2 * hidden, config.num_attention_heads * self.size, bias=bias)
        self.k_proj = nn.Linear(2 * hidden, config.num_key_value_heads * self.size, bias=bias)
        self.v_proj = nn.Linear(2 * hidden, config.num_key_value_heads * self.size, bias=bias)
        self.o_proj = nn.Linear(config.num_attention_heads * self.size, hidden, bias=bias)

    def forward(self, both: Tensor, rows: Rows, room: Tensor) -> Tensor:
        """Attention of rows (rows, 2 × hidden) over ``room`` (2, kv heads, committed + rows so far, head size), whose
        last places they fill."""
        queries, keys, values = (
            projection(both).unflatten(-1, (-1, self.size)).transpose(0, 1)
            for projection in (self.q_proj, self.k_proj, self.v_proj))
        room[0, :, -len(both):], room[1, :, -len(both):] = rotated(keys, rows.rotation), values
        mixed = scaled_dot_product_attention(
            rotated(queries, rows.rotation)[None], room[0][None], room[1][None], attn_mask=rows.mask,
            enable_gqa=self.groups > 1)
        projected: Tensor = self.o_proj(mixed[0].transpose(0, 1).flatten(-2))
        return projected


class Eagle3Layer(nn.Module):
    """The drafter's only layer."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = Eagle3Attention(config)
        self.mlp = LlamaMLP(config)
        self.hidden_norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, rows: Rows, room: Tensor) -> Tensor:
        """The hidden states (rows, hidden) of rows, whose embedded tokens and hidden states are normed separately."""
        both = torch.cat([self.input_layernorm(rows.embedded), self.hidden_norm(rows.hidden)], -1)
        hidden = rows.hidden + self.self_attn(both, rows, room)
        states: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return states


class Eagle3Model(nn.Module):
    """The trained module: ``fc`` fuses the taps, ``midlayer`` drafts, ``norm`` and ``lm_head`` give logits of the draft
    vocabulary. ``d2t`` (draft vocabulary,) is added to a draft id to get the target's, ``t2d`` (vocabulary,) says which
    of the target's tokens have a draft id."""

    d2t: Tensor
    t2d: Tensor

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        hidden, draft = config.hidden_size, config.draft_vocab_size
        self.fc = nn.Linear(config.taps * config.target_hidden_size, hidden, bias=False)
        self.midlayer = Eagle3Layer(config)
        self.norm = LlamaRMSNorm(hidden, eps=config.rms_norm_eps)
        self.lm_head = nn.Linear(hidden, draft, bias=False)
        self.register_buffer("d2t", torch.zeros(draft, dtype=torch.long))
        self.register_buffer("t2d", torch.zeros(config.vocab_size, dtype=torch.bool))
        self.rotary_emb = LlamaRotaryEmbedding(config)

    def rotation(self, positions: Tensor) -> Rotation:
        """Cosines and sines of positions (rows,)."""
        cosines, sines = self.rotary_emb(self.norm.weight, positions[None])
        return cosines[0], sines[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits over the target's vocabulary, (rows, vocabulary) float32, −inf for tokens without a draft id."""
        drafted = self.lm_head(self.norm(hidden)).float()
        whole = drafted.new_full((len(hidden), self.config.vocab_size), -torch.inf)
        places = self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)
        logits: Tensor = whole.index_copy_(1, places, drafted)
        return logits
