"""The block-diffusion drafter of DFlash, with the tensor names and conventions of its published checkpoints.

A block is [root, mask, …, mask]: slot 0 is the embedding of the committed root token, slot i proposes the token at
position root + i (paper 002, section 3). Attention inside a block is usually not causal. Every slot also sees the
target's features of the committed positions, as further keys and values of each layer. Embedding and output head are
the target's.

DFlash 2 (z-lab's ``dflash`` 0.1.0) adds a convolution around each attention and MLP, and a candidate selector
(``lattices.py``). In DSpark every slot proposes the token *after* its own position, and a Markov head takes the
selector's place; in TreeFlash a correction by the token before does. JetSpec's drafters are DFlash's, causal.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import (
    Qwen3Attention,
    Qwen3MLP,
    Qwen3RMSNorm,
    Qwen3RotaryEmbedding,
    rotate_half,
)

from engine.drafters.dflash.lattices import CandidateSelector, MarkovHead, TokenCorrection

Rotation = tuple[Tensor, Tensor]  # cosines and sines, (rows, head size)
BlockPositions = tuple[Tensor, Tensor]  # of a block's slots, and of the keys that they may see


class AttentionWindow(NamedTuple):
    """Which keys a layer's slots see: those fewer than ``size`` positions away, or all if ``size`` is 0. If ``causal``,
    none behind the slot itself."""

    size: int
    causal: bool

    def visible(self, slots: Tensor, keys: Tensor) -> Tensor:
        """Return which keys each slot sees, (…, slots, keys) bool, by their positions (…, slots) and (…, keys)."""
        offsets = keys[..., None, :] - slots[..., :, None]
        near = offsets.abs() < self.size if self.size else torch.ones_like(offsets, dtype=torch.bool)
        return near & (offsets <= 0) if self.causal else near


FULL_ATTENTION = AttentionWindow(0, causal=False)


def rotate(states: Tensor, rotation: Rotation) -> Tensor:
    """Apply rotary position embedding to states (…, rows, head size)."""
    cosines, sines = rotation
    rows: Tensor = states * cosines + rotate_half(states) * sines
    return rows


class DFlashAttention(Qwen3Attention):  # type: ignore[misc]  # transformers' types are not read
    """Queries from the block; keys and values from the context features and from the block."""

    def keys_values(self, states: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """Return keys and values of states (batch, rows, hidden): each (batch, kv heads, rows, head size)."""
        keys, values = (project(states).unflatten(-1, (-1, self.head_dim)) for project in (self.k_proj, self.v_proj))
        return rotate(self.k_norm(keys).transpose(-2, -3), rotation), values.transpose(-2, -3)

    def forward(self, hidden: Tensor, rotation: Rotation, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Return the attention output (batch, slots, hidden) of a block's states (batch, slots, hidden), over its own
        keys and values and those of the context (batch, kv heads, context, head size); ``mask`` as in torch."""
        block_keys, block_values = self.keys_values(hidden, rotation)
        keys, values = torch.cat([keys, block_keys], -2), torch.cat([values, block_values], -2)
        queries = self.q_norm(self.q_proj(hidden).unflatten(-1, (-1, self.head_dim))).transpose(-2, -3)
        mixed = nn.functional.scaled_dot_product_attention(
            rotate(queries, rotation), keys, values, attn_mask=mask, enable_gqa=self.num_key_value_groups > 1)
        projected: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(-2))
        return projected


class GroupedConvolution(nn.Module):
    """Mixes each slot of a block with the slots before it: once before a part of a layer, and once behind it.

    Each kernel is a fixed one per channel, ``base_kernel`` (2, taps, hidden), plus one per group of channels, projected
    from the part's input. Taps end at the block's root and never reach the context.
    """

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        options, hidden = config.dflash_config, config.hidden_size
        self.slots, self.taps = config.block_size, options["conv_kernel_size"]
        self.groups = hidden // options["conv_group_size"]
        self.base_kernel = nn.Parameter(torch.zeros(2, self.taps, hidden))
        nn.init.ones_(self.base_kernel[:, 0])  # with the projection at zero, a convolution changes nothing
        self.kernel_projection = nn.Linear(hidden, 2 * self.taps * self.groups, bias=False)
        nn.init.zeros_(self.kernel_projection.weight)

    def around(self, inputs: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the part's output for inputs (…, blocks × slots, hidden), both convolved, in their shape."""
        changes = self.kernel_projection(inputs).view(-1, self.slots, 2, self.taps, self.groups, 1)
        before, after = (changes + self.base_kernel.view(2, self.taps, self.groups, -1)).unbind(2)
        return self._mixed(part(self._mixed(inputs, before)), after)

    def _mixed(self, states: Tensor, kernels: Tensor) -> Tensor:
        """Mix states (…, blocks × slots, hidden) by kernels (blocks, slots, taps, groups, hidden ÷ groups)."""
        blocks = states.reshape(-1, self.slots, self.groups, kernels.shape[-1])
        mixed = kernels[:, :, 0] * blocks
        for tap in range(1, self.taps):
            mixed[:, tap:].addcmul_(kernels[:, tap:, tap], blocks[:, :-tap])
        return mixed.view(states.shape)


def convolve(convolution: GroupedConvolution | None, inputs: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the part's output for inputs (…, hidden), inside the convolution of a layer that has one."""
    return part(inputs) if convolution is None else convolution.around(inputs, part)


class DFlashLayer(nn.Module):
    """Attention and MLP with their norms and residuals, and DFlash 2's convolutions around them."""

    def __init__(self, config: Qwen3Config, number: int) -> None:
        super().__init__()
        convolves = bool(config.dflash_config.get("conv_kernel_size"))
        self.attention_conv = GroupedConvolution(config) if convolves else None
        self.mlp_conv = GroupedConvolution(config) if convolves else None
        self.self_attn: Any = DFlashAttention(config, number)
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
        layers = nn.ModuleList(DFlashLayer(config, number) for number in range(config.num_hidden_layers))
        self.layers: Sequence[DFlashLayer] = layers  # type: ignore[assignment]  # torch types its members as Module
        causal = config.dflash_config.get("causal")  # else sliding layers are causal, and full ones are not
        kinds = config.layer_types or ["full_attention"] * config.num_hidden_layers
        self.windows = tuple(
            AttentionWindow(int(config.sliding_window), causal is not False) if kind == "sliding_attention"
            else AttentionWindow(0, bool(causal)) for kind in kinds)
        self.norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = Qwen3RotaryEmbedding(config)
        options = config.dflash_config
        self.first_slot = 0 if options.get("sample_from_anchor") or options.get("draft_shift") else 1
        self.depth: int = config.block_size - (0 if options.get("sample_from_anchor") else 1)
        self.candidate_selector = CandidateSelector(config) if options.get("selector_rank") else None
        self.markov_head = MarkovHead(config) if options.get("markov_rank") else None
        self.ar_approximation = TokenCorrection(config) if options.get("ar_approximation") else None

    def proposing(self, hidden: Tensor) -> Tensor:
        """Return the slots that propose, in order: (…, depth, hidden) of (…, slots, hidden)."""
        return hidden[..., self.first_slot:self.first_slot + self.depth, :]

    def rotation(self, positions: Tensor) -> Rotation:
        """Return cosines and sines of absolute positions (rows,)."""
        cosines, sines = self.rotary_emb(self.norm.weight, positions[None])
        return cosines[0], sines[0]

    def context(self, features: Tensor, rotation: Rotation) -> Tensor:
        """Return the keys and values that features (batch, rows, taps × hidden) add to every layer: (layers, 2, batch,
        kv heads, rows, head size)."""
        fused = self.hidden_norm(self.fc(features))
        return torch.stack([torch.stack(layer.self_attn.keys_values(fused, rotation)) for layer in self.layers])

    def forward(self, block: Tensor, rotation: Rotation, context: Tensor, visible: Tensor | None = None,
                positions: BlockPositions | None = None) -> Tensor:
        """Return denoised states (batch, slots, hidden), before the last norm, of embedded blocks of that shape.

        ``context``: see the method; ``visible`` bool (batch or 1, 1, slots, keys): which keys count; ``positions`` of
        slots and keys, needed unless all layers have full attention. For training and comparison; decoding uses
        ``engine.models.layers``.
        """
        hidden = block
        for layer, window, (keys, values) in zip(self.layers, self.windows, context, strict=True):
            mask = visible
            if window != FULL_ATTENTION:
                if positions is None:
                    raise ValueError("Some layers of the drafter attend in a window; the pass needs the positions of "
                                     "slots and keys.")
                near = window.visible(*positions)
                mask = near if visible is None else visible & near
            attend = partial(layer.self_attn, rotation=rotation, keys=keys, values=values, mask=mask)
            hidden = hidden + convolve(layer.attention_conv, layer.input_layernorm(hidden), attend)
            hidden = hidden + convolve(layer.mlp_conv, layer.post_attention_layernorm(hidden), layer.mlp)
        return hidden
