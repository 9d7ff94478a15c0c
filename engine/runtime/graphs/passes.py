"""Forward passes of target and drafter over caches whose prefix is a context bucket.

The first ``bucket`` slots of a cache are the prefix; the mask hides those that the text has not reached. A pass writes
its rows into the slots after the bucket. A bucket serves until the text outgrows it. Moving to a larger one copies
nothing, since the slots after the text hold nothing that is needed later.
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
ALIGNMENT = 16  # elements: fused attention on CUDA copies a mask whose rows do not begin at a multiple of it


def bucket_of(length: int, smallest: int = SMALLEST_BUCKET) -> int:
    """The bucket for a prefix of ``length`` positions: at most a quarter more, except for the smallest ones."""
    step = max(smallest, 1 << max(length.bit_length() - 3, 0))
    return max(1, -(-length // step)) * step


def hiding(seen: Tensor, length: Tensor, bucket: int, groups: int, like: Tensor) -> Tensor:
    """The additive mask of new rows after ``bucket`` slots, of which the first ``length`` () int64 are visible:
    (1, 1, groups × rows, bucket + rows), 0 or −inf, in the dtype of ``like``. ``seen`` is (rows, rows) bool; query
    groups as in ``layers.additive``."""
    rows = len(seen)
    whole = like.new_zeros(groups, rows, -(-(bucket + rows) // ALIGNMENT) * ALIGNMENT)
    whole[:, :, :bucket].masked_fill_(torch.arange(bucket, device=like.device) >= length, -torch.inf)
    whole[:, :, bucket:bucket + rows].masked_fill_(~seen, -torch.inf)
    return whole.flatten(0, 1)[None, None, :, :bucket + rows]


class Angles:
    """A drafter's or target's rotary factors of all positions below ``end``, at addresses that do not change."""

    def __init__(self, rotations: Rotations, end: int) -> None:
        self.whole = rotations.span(0, end)

    def at(self, positions: Tensor) -> Rotation:
        """The rotary factors of positions (rows,) int64."""
        cosines, sines = self.whole
        return cosines.index_select(0, positions), sines.index_select(0, positions)


class GraphTarget:
    """A fused forward pass of at most ``rows`` rows over a cache for texts of up to ``longest`` positions."""

    def __init__(self, fused: FusedPass, config: PreTrainedConfig, longest: int, rows: int) -> None:
        like = fused.base.embed_tokens.weight
        self.fused = fused
        self.cache = TreeCache(config, longest + rows, like)
        self.slots = self.cache.slots[:, :, 0].zero_()  # finite numbers, since what is hidden is still multiplied by 0
        self.angles = Angles(fused.rotations, longest + rows)

    def verify(self, tokens: Tensor, depths: Tensor, seen: Tensor, length: Tensor, bucket: int) -> PassOutput:
        """Logits and taps of a tree's rows: tokens, depths (rows,) int64, seen (rows, rows) bool, length () int64."""
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
        """Move these rows (n,) int64 of the last pass to the slots after the prefix of ``length`` () int64."""
        moved = self.slots[..., bucket:, :].index_select(-2, rows)
        self.slots.index_copy_(-2, length + torch.arange(len(rows), device=rows.device), moved)


class GraphDrafter:
    """A block-diffusion drafter with a KV cache for texts of up to ``longest`` positions, to which a round adds at most
    ``rows``. ``columns`` (n,) int64 are the feature columns that it reads, None for all."""

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
        """How many positions it proposes tokens for."""
        return self.drafter.block - 1

    def observe(self, features: Tensor, positions: Tensor) -> None:
        """Turn features (n, all taps × hidden size) at these positions (n,) int64 into keys and values."""
        drafter = self.drafter
        features = features if self.columns is None else features.index_select(-1, self.columns)
        keys, values = drafter.context_of(features)
        both = torch.stack([turned(keys, self.angles.at(positions)), values], 1).transpose(2, 3)
        self.context.index_copy_(3, positions, both)

    def draft(self, root: Tensor, length: Tensor, bucket: int, width: int) -> Marginals:
        """The ``width`` likeliest tokens of each position after ``root`` () int64, itself after ``length`` () int64."""
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
        """The additive mask for each attention window among the layers; window 0 is full attention."""
        found = {}
        for window in {*self.drafter.model.windows}:
            found[window] = hiding(self.seen, length, bucket, self.groups, like)
            if window:
                slots = length + torch.arange(self.drafter.block, device=length.device)
                keys = torch.cat([torch.arange(bucket, device=length.device), slots])
                far = ~self.drafter.model.near(window, slots, keys)
                found[window].unflatten(2, (self.groups, -1)).masked_fill_(far, -torch.inf)
        return found
