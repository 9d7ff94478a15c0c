"""Passes of target and drafter over caches whose prefix is a context bucket.

A cache's first ``bucket`` slots are the prefix, of which the mask shows only those before the text's length; the rows
of a pass lie in the slots after it. A bucket serves until the text outgrows it. Nothing moves when it grows, since the
slots after the text hold nothing that is needed later.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding
from transformers import PreTrainedConfig

from engine.drafters.abilities import BlockDrafter
from engine.runtime.graphs.trees import Marginals, marginals
from engine.runtime.target.cache import TreeCache
from engine.runtime.target.layers import Rotation, Rotations, turned
from engine.runtime.target.passes import FusedPass, PassOutput, beside

SMALLEST_BUCKET = 256
ALIGNMENT = 16  # elements: fused attention on CUDA copies a mask whose rows begin elsewhere


def bucket_of(length: int, smallest: int = SMALLEST_BUCKET) -> int:
    """The bucket for a prefix of ``length``: at most a quarter more than it, except for the smallest ones."""
    step = max(smallest, 1 << max(length.bit_length() - 3, 0))
    return max(1, -(-length // step)) * step


def hiding(seen: Tensor, length: Tensor, bucket: int, groups: int, like: Tensor) -> Tensor:
    """The mask of new rows after ``bucket`` slots of which the first ``length`` () count: (1, 1, groups × rows,
    bucket + rows), 0 or −inf. ``seen`` is (rows, rows) bool; query groups as in ``layers.additive``."""
    rows = len(seen)
    whole = like.new_zeros(groups, rows, -(-(bucket + rows) // ALIGNMENT) * ALIGNMENT)
    whole[:, :, :bucket].masked_fill_(torch.arange(bucket, device=like.device) >= length, -torch.inf)
    whole[:, :, bucket:bucket + rows].masked_fill_(~seen, -torch.inf)
    return whole.flatten(0, 1)[None, None, :, :bucket + rows]


class Angles:
    """A drafter's or target's rotary factors of all positions below ``end``, at addresses that stay."""

    def __init__(self, rotations: Rotations, end: int) -> None:
        self.whole = rotations.span(0, end)

    def at(self, positions: Tensor) -> Rotation:
        """Factors of positions (rows,) int64."""
        cosines, sines = self.whole
        return cosines.index_select(0, positions), sines.index_select(0, positions)


class GraphTarget:
    """A fused forward pass over a cache for texts of up to ``longest`` positions, of at most ``rows`` rows at once."""

    def __init__(self, fused: FusedPass, config: PreTrainedConfig, longest: int, rows: int) -> None:
        like = fused.base.embed_tokens.weight
        self.fused = fused
        self.cache = TreeCache(config, longest + rows, like)
        self.slots = self.cache.slots[:, :, 0].zero_()  # what is hidden is still multiplied, with 0
        self.angles = Angles(fused.rotations, longest + rows)

    def verify(self, tokens: Tensor, depths: Tensor, seen: Tensor, length: Tensor, bucket: int) -> PassOutput:
        """Logits and taps of the rows: tokens, depths (rows,) int64, seen (rows, rows) bool, length () int64."""
        fused = self.fused
        hidden = embedding(tokens, fused.base.embed_tokens.weight)
        rotation = self.angles.at(length + depths)
        mask = hiding(seen, length, bucket, fused.groups, hidden)
        outputs = []
        for layer, room in zip(fused.layers, self.slots[:, :, :, :bucket + len(tokens)], strict=True):
            hidden = layer.run(hidden, rotation, room, mask)
            outputs.append(hidden)
        logits = fused.head(fused.norm(hidden))
        return PassOutput(logits, beside([outputs[layer] for layer in fused.taps]))

    def keep(self, rows: Tensor, length: Tensor, bucket: int) -> None:
        """Move these rows (n,) int64 of the last pass after the prefix of ``length`` ()."""
        moved = self.slots[..., bucket:, :].index_select(-2, rows)
        self.slots.index_copy_(-2, length + torch.arange(len(rows), device=rows.device), moved)


class GraphDrafter:
    """A block-diffusion drafter over a context for texts of up to ``longest`` positions, which at most ``rows`` new
    positions at a time join; ``columns`` are the features that it reads, where it does not read all."""

    def __init__(self, drafter: BlockDrafter, columns: Tensor | None, longest: int, rows: int) -> None:
        config, like = drafter.model.config, drafter.model.fc.weight
        self.drafter, self.columns = drafter, columns
        self.groups = config.num_attention_heads // config.num_key_value_heads
        self.masks = torch.full((drafter.block - 1,), drafter.mask_id, device=like.device)
        self.seen = torch.ones(drafter.block, drafter.block, dtype=torch.bool, device=like.device)
        slots = longest + max(drafter.block, rows)
        self.context = like.new_zeros(
            config.num_hidden_layers, 2, config.num_key_value_heads, slots, config.head_dim)
        self.angles = Angles(drafter.rotations, slots)

    @property
    def depth(self) -> int:
        """Positions that it proposes."""
        return self.drafter.block - 1

    def observe(self, features: Tensor, positions: Tensor) -> None:
        """Features (n, all taps × hidden size) of these positions (n,) int64 become keys and values."""
        drafter = self.drafter
        features = features if self.columns is None else features.index_select(-1, self.columns)
        keys, values = drafter.context_of(features)
        both = torch.stack([turned(keys, self.angles.at(positions)), values], 1).transpose(2, 3)
        self.context.index_copy_(3, positions, both)

    def draft(self, root: Tensor, length: Tensor, bucket: int, width: int) -> Marginals:
        """What may follow ``root`` () after a prefix of ``length`` ()."""
        drafter = self.drafter
        block = drafter.block
        hidden = drafter.embedding(torch.cat([root[None], self.masks]))
        rotation = self.angles.at(length + torch.arange(block, device=length.device))
        masks = self._masks(length, bucket, hidden)
        rooms = self.context[:, :, :, :bucket + block]
        for layer, window, room in zip(drafter.layers, drafter.model.windows, rooms, strict=True):
            hidden = layer.run(hidden, rotation, room, masks[window])
        return marginals(drafter.head(drafter.norm(hidden[1:])), width)

    def _masks(self, length: Tensor, bucket: int, like: Tensor) -> dict[int, Tensor]:
        """The mask for every window of a layer."""
        found = {}
        for window in {*self.drafter.model.windows}:
            found[window] = hiding(self.seen, length, bucket, self.groups, like)
            if window:
                slots = length + torch.arange(self.drafter.block, device=length.device)
                keys = torch.cat([torch.arange(bucket, device=length.device), slots])
                far = ~self.drafter.model.near(window, slots, keys)
                found[window].unflatten(2, (self.groups, -1)).masked_fill_(far, -torch.inf)
        return found
