"""Blocks at random anchors of rows: a drafter's masked inputs, its labels, and what each slot sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.recipes.batches import Batch


@dataclass(frozen=True)
class BlockShape:
    """The shape of blocks and their loss. slots: tokens of a block, the root's included; fall: slots over which the
    weight in the loss falls by a factor e, since acceptance depends most on the tokens near the root."""

    slots: int = 16
    fall: float = 7.0


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of a batch: roots, tokens at the anchors, and anchors (rows, m) int64; labels (rows, m, slots − 1)
    int64; weights alike, float32."""

    roots: NDArray[np.int64]
    anchors: NDArray[np.int64]
    labels: NDArray[np.int64]
    weights: NDArray[np.float32]

    @property
    def slots(self) -> int:
        """Tokens of a block, the root's included."""
        slots: int = self.labels.shape[-1] + 1
        return slots


def lay_blocks(batch: Batch, anchors: int, seed: int, shape: BlockShape) -> Blocks:
    """Random anchors inside the answers. A label outside the anchor's own answer has weight 0."""
    generator = np.random.Generator(np.random.Philox(seed))
    rows, length = batch.tokens.shape
    reach = np.arange(1, shape.slots)
    chosen = np.empty((rows, anchors), np.int64)
    for row in range(rows):
        places = np.flatnonzero(batch.answer[row])
        chosen[row] = generator.choice(places, anchors, replace=len(places) < anchors)
    index = chosen[:, :, None] + reach
    inside = index < length
    index = np.minimum(index, length - 1)
    at = np.arange(rows)[:, None, None]
    together = np.logical_and.accumulate(batch.answer[at, index] & inside, axis=-1)
    weights = together * np.exp(-(reach - 1) / shape.fall)
    roots = np.take_along_axis(batch.tokens, chosen, 1)
    return Blocks(roots, chosen, batch.tokens[at, index], weights.astype(np.float32))


def block_mask(anchors: Tensor, length: int, slots: int) -> Tensor:
    """What each slot sees, (rows, 1, m × slots, length + m × slots) bool: features before its anchor, and its block."""
    rows, count = anchors.shape
    before = torch.arange(length, device=anchors.device) < anchors[:, :, None]
    before = before.repeat_interleave(slots, 1)
    block = torch.arange(count, device=anchors.device).repeat_interleave(slots)
    own = (block[:, None] == block).expand(rows, -1, -1)
    return torch.cat([before, own], -1)[:, None]
