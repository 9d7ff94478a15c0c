"""A drafter's proposals at every position of a known text, many positions in one pass.

Anchor p sees the features of the positions before p and its own block [token p, mask, …], as in decoding; here the
blocks of several anchors are a batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from engine.drafters.abilities import BlockDrafter, ReadText
from engine.drafters.dflash.model import Rotation
from engine.records import Lattice, Proposals

MOST_BYTES = 96 * 2**20  # of the largest tensors of one batch of anchors


@dataclass(frozen=True)
class BlockVariant:
    """How a block is laid out and read: the token in all slots but the first, and whether it is in the first instead of
    the root; the rotation for positions; and the first of the slots whose hidden states propose the next tokens."""

    mask_id: int
    rotation: Callable[[Tensor], Rotation]
    first_slot: int
    masked_root: bool = False

    @classmethod
    def of(cls, drafter: BlockDrafter) -> Self:
        """The drafter's own."""
        return cls(drafter.mask_id, drafter.model.rotation, drafter.model.first_slot)


@torch.inference_mode()
def proposals(drafter: BlockDrafter, text: ReadText, width: int, variant: BlockVariant | None = None) -> Proposals:
    """The drafter's lattice at every anchor, ``width`` tokens per row; one pass takes as many anchors as fit into
    ``MOST_BYTES``. Without a ``variant`` blocks are the drafter's own."""
    variant, token_ids = variant or BlockVariant.of(drafter), torch.from_numpy(text.token_ids).long().to(drafter.device)
    positions = torch.arange(len(token_ids), device=drafter.device)
    context = drafter.model.context(text.features[None], variant.rotation(positions))
    lattices: list[Lattice] = []
    for anchors in torch.from_numpy(text.anchors).long().to(drafter.device).split(_batch(drafter, len(token_ids))):
        roots = token_ids[anchors]
        hidden = _denoised(drafter, roots, context[..., :int(anchors[-1]), :], anchors, variant)
        lattices += drafter.lattices(hidden, roots, width)
    return lattices


def _batch(drafter: BlockDrafter, size: int) -> int:
    """How many anchors one pass takes: keys, values and mask grow with the text, logits with the vocabulary."""
    config = drafter.model.config
    heads = 2 * config.num_key_value_heads * config.head_dim + config.num_attention_heads * drafter.block
    anchor_bytes = 4 * ((size + drafter.block) * heads + 3 * drafter.block * config.vocab_size)
    return int(max(1, min(64, MOST_BYTES // anchor_bytes)))


def _denoised(drafter: BlockDrafter, roots: Tensor, context: Tensor, anchors: Tensor, variant: BlockVariant) -> Tensor:
    """The hidden states of the slots that propose, (anchors, depth, hidden)."""
    count, block, length = len(anchors), drafter.block, context.shape[-2]
    tokens = roots.new_full((count, block), variant.mask_id)
    if not variant.masked_root:
        tokens[:, 0] = roots
    positions = anchors[:, None] + torch.arange(block, device=drafter.device)
    cosines, sines = (part.view(count, 1, block, -1) for part in variant.rotation(positions.flatten()))
    before = torch.arange(length, device=drafter.device) < anchors[:, None]
    seen = torch.cat([before, before.new_ones(count, block)], -1)[:, None, None].expand(-1, 1, block, -1)
    keys = torch.cat([torch.arange(length, device=drafter.device).expand(count, -1), positions], -1)
    hidden = drafter.model(drafter.embedded(tokens), (cosines, sines), context.expand(-1, -1, count, -1, -1, -1), seen,
                           (positions[:, None], keys[:, None]))
    proposing: Tensor = hidden[:, variant.first_slot:variant.first_slot + drafter.model.depth]
    return proposing
