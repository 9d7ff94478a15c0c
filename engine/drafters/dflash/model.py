"""The block-diffusion drafter of DFlash, with the tensor names and conventions of its published checkpoints.

A block is [root, mask, …, mask]. Slot 0 is the embedding of the committed root token, the others are mask tokens;
slot i proposes the token at position root + i, in place (paper 002, section 3). Attention inside a block is not
causal, and every slot sees the target's features of the committed positions before the root, which enter each
layer as further keys and values. A sliding layer is causal unless the config says otherwise, and sees only the last
positions, its own included. Embedding and output head are the target's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import (
    Qwen3MLP,
    Qwen3RMSNorm,
    Qwen3RotaryEmbedding,
    rotate_half,
)

Rotation = tuple[Tensor, Tensor]  # cosines and sines, (rows, head size)
Places = tuple[Tensor, Tensor]  # the positions of a block's slots, and of the keys that they may see


def windows_of(config: Qwen3Config) -> tuple[int, ...]:
    """How many positions each layer sees, its own included; 0 for all."""
    kinds = config.layer_types or ["full_attention"] * config.num_hidden_layers
    return tuple(int(config.sliding_window) if kind == "sliding_attention" else 0 for kind in kinds)


def rotated(states: Tensor, rotation: Rotation) -> Tensor:
    """States (…, rows, head size) with rotary position embedding applied."""
    cosines, sines = rotation
    made: Tensor = states * cosines + rotate_half(states) * sines
    return made


class DFlashAttention(nn.Module):
    """Queries from the block; keys and values from the context features and from the block."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.size = config.head_dim
        self.groups = config.num_attention_heads // config.num_key_value_heads
        bias, hidden = config.attention_bias, config.hidden_size
        self.q_proj = nn.Linear(hidden, config.num_attention_heads * self.size, bias=bias)
        self.k_proj = nn.Linear(hidden, config.num_key_value_heads * self.size, bias=bias)
        self.v_proj = nn.Linear(hidden, config.num_key_value_heads * self.size, bias=bias)
        self.o_proj = nn.Linear(config.num_attention_heads * self.size, hidden, bias=bias)
        self.q_norm = Qwen3RMSNorm(self.size, eps=config.rms_norm_eps)
        self.k_norm = Qwen3RMSNorm(self.size, eps=config.rms_norm_eps)

    def heads(self, states: Tensor) -> Tensor:
        """States (batch, rows, heads × size) split into heads: (batch, heads, rows, size)."""
        parted: Tensor = states.unflatten(-1, (-1, self.size)).transpose(1, 2)
        return parted

    def keys_values(self, states: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """Keys and values of states (batch, rows, hidden): each (batch, kv heads, rows, head size)."""
        keys = rotated(self.k_norm(self.k_proj(states).unflatten(-1, (-1, self.size))).transpose(1, 2), rotation)
        return keys, self.heads(self.v_proj(states))

    def forward(self, hidden: Tensor, rotation: Rotation, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """The attention output (batch, slots, hidden) of a block's states (batch, slots, hidden), over keys and values
        (batch, kv heads, context + slots, head size) that already hold context and block; ``mask`` as in torch."""
        queries = rotated(self.q_norm(self.q_proj(hidden).unflatten(-1, (-1, self.size))).transpose(1, 2), rotation)
        mixed = nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, enable_gqa=self.groups > 1)
        made: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(-2))
        return made


class DFlashLayer(nn.Module):
    """Attention and MLP with their norms and residuals."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.self_attn = DFlashAttention(config)
        self.mlp = Qwen3MLP(config)
        self.input_layernorm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)


class DFlashModel(nn.Module):
    """The drafter: ``fc`` and ``hidden_norm`` fuse the tapped features, ``layers`` denoise the block in one pass."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.config = config
        taps = len(config.dflash_config["target_layer_ids"])
        self.fc = nn.Linear(taps * config.hidden_size, config.hidden_size, bias=False)
        self.hidden_norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        layers = nn.ModuleList(DFlashLayer(config) for _ in range(config.num_hidden_layers))
        self.layers: Sequence[DFlashLayer] = layers  # type: ignore[assignment]  # torch types what is in one as Module
        self.windows = windows_of(config)
        self.causal: bool = config.dflash_config.get("causal") is not False
        self.norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = Qwen3RotaryEmbedding(config)

    def rotation(self, positions: Tensor) -> Rotation:
        """Cosines and sines of absolute positions (rows,)."""
        cosines, sines = self.rotary_emb(self.norm.weight, positions[None])
        return cosines[0], sines[0]

    def context(self, features: Tensor, rotation: Rotation) -> Tensor:
        """Keys and values that the features (batch, rows, taps × hidden) add to every layer:
        (layers, 2, batch, kv heads, rows, head size)."""
        fused = self.hidden_norm(self.fc(features))
        return torch.stack([torch.stack(layer.self_attn.keys_values(fused, rotation)) for layer in self.layers])

    def near(self, window: int, slots: Tensor, keys: Tensor) -> Tensor:
        """Which keys each slot of a layer with this window sees, (…, slots, keys) bool, by their positions (…, slots)
        and (…, keys)."""
        ahead = keys[..., None, :] - slots[..., :, None]
        return (ahead > -window) & (ahead <= 0) if self.causal else ahead > -window

    def forward(self, block: Tensor, rotation: Rotation, context: Tensor, seen: Tensor | None = None,
                places: Places | None = None) -> Tensor:
        """Denoised hidden states (batch, slots, hidden) of embedded blocks (batch, slots, hidden).

        ``context`` is (layers, 2, batch, kv heads, rows, head size); ``seen`` is bool (batch or 1, 1, slots, keys):
        which keys count. ``places`` are the positions of slots and keys, (batch or 1, 1, slots) and (…, keys), needed
        if layers slide. For training and comparison only; decoding uses ``engine.models.layers``.
        """
        hidden = block
        for layer, window, (keys, values) in zip(self.layers, self.windows, context, strict=True):
            mask = seen
            if window:
                if places is None:
                    raise ValueError("The drafter has sliding layers; the pass needs the positions of slots and keys.")
                near = self.near(window, *places)
                mask = near if seen is None else seen & near
            inputs = layer.input_layernorm(hidden)
            own_keys, own_values = layer.self_attn.keys_values(inputs, rotation)
            hidden = hidden + layer.self_attn(
                inputs, rotation, torch.cat([keys, own_keys], -2), torch.cat([values, own_values], -2), mask)
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        normed: Tensor = self.norm(hidden)
        return normed
