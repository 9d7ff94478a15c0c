"""A drafter's proposals at every position of a known text, many positions in one pass.

Anchor p sees the features of the positions before p and its own block [token p, mask, …], as in decoding; here the
blocks of several anchors are a batch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.drafters.abilities import BlockDrafter, ReadText
from engine.drafters.dflash.model import Rotation
from engine.records import Lattice, Proposals

MOST_BYTES = 96 * 2**20  # of the largest tensors of one batch of anchors


@dataclass(frozen=True)
class Manner:
    """How a block is laid out and read: the tokens (n, block) for roots (n,), the rotation for positions, and the first
    of the slots whose hidden states propose the next tokens in order; None for the drafter's own."""

    lay: Callable[[Tensor], Tensor]
    rotation: Callable[[Tensor], Rotation]
    first_slot: int | None = None


def usual(drafter: BlockDrafter) -> Manner:
    """The drafter's own manner: root, mask, …, mask."""
    def lay(roots: Tensor) -> Tensor:
        tokens = torch.full((len(roots), drafter.block), drafter.mask_id, device=roots.device)
        tokens[:, 0] = roots
        return tokens
    return Manner(lay, drafter.model.rotation)


@torch.inference_mode()
def proposals(drafter: BlockDrafter, text: ReadText, width: int, manner: Manner | None = None) -> Proposals:
    """The drafter's lattice at every anchor, ``width`` tokens per row; one pass takes as many anchors as fit into
    ``MOST_BYTES``."""
    manner, size = manner or usual(drafter), len(text.token_ids)
    context = drafter.model.context(text.features[None], manner.rotation(torch.arange(size, device=drafter.device)))
    lattices: list[Lattice] = []
    for anchors in torch.from_numpy(text.anchors).long().to(drafter.device).split(_batch(drafter, size)):
        hidden = _denoised(drafter, text, context[..., :int(anchors[-1]), :], anchors, manner)
        lattices += drafter.lattices(hidden, torch.from_numpy(text.token_ids).long().to(drafter.device)[anchors], width)
    return lattices


def _batch(drafter: BlockDrafter, size: int) -> int:
    """How many anchors one pass takes: keys, values and mask grow with the text, logits with the vocabulary."""
    config = drafter.model.config
    heads = 2 * config.num_key_value_heads * config.head_dim + config.num_attention_heads * drafter.block
    anchor_bytes = 4 * ((size + drafter.block) * heads + 3 * drafter.block * config.vocab_size)
    return int(max(1, min(64, MOST_BYTES // anchor_bytes)))


def _denoised(drafter: BlockDrafter, text: ReadText, context: Tensor, anchors: Tensor, manner: Manner) -> Tensor:
    """The hidden states of the slots that propose, (anchors, depth, hidden)."""
    count, block, length = len(anchors), drafter.block, context.shape[-2]
    tokens = manner.lay(torch.from_numpy(text.token_ids).long().to(drafter.device)[anchors])
    positions = anchors[:, None] + torch.arange(block, device=drafter.device)
    cosines, sines = (part.view(count, 1, block, -1) for part in manner.rotation(positions.flatten()))
    before = torch.arange(length, device=drafter.device) < anchors[:, None]
    seen = torch.cat([before, before.new_ones(count, block)], -1)[:, None, None].expand(-1, 1, block, -1)
    keys = torch.cat([torch.arange(length, device=drafter.device).expand(count, -1), positions], -1)
    hidden = drafter.model(drafter.embedded(tokens), (cosines, sines), context.expand(-1, -1, count, -1, -1, -1), seen,
                           (positions[:, None], keys[:, None]))
    first = drafter.model.first_slot if manner.first_slot is None else manner.first_slot
    proposing: Tensor = hidden[:, first:first + drafter.model.depth]
    return proposing
