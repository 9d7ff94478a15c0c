"""What a drafter proposes at every position of a known text, many positions in one pass.

Anchor p sees the features of the positions before p and its own block [token p, mask, …], as in decoding; here the
blocks of several anchors are a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.drafters.dflash import DFlashDrafter, marginals
from engine.drafters.dflash_model import joined
from engine.lab.replay import Proposals
from engine.records import Integers, Lattice

MOST_BYTES = 96 * 2**20  # of the largest tensors of one batch of anchors


@dataclass(frozen=True, eq=False)
class ReadText:
    """Prompt and text as the target read them: token_ids (all,) int32, features (all, taps × hidden size), and the
    position of the text's first token, the first anchor."""

    token_ids: Integers
    features: Tensor
    start: int


@torch.inference_mode()
def proposals(drafter: DFlashDrafter, text: ReadText, width: int) -> Proposals:
    """The drafter's lattice at every place of the text, ``width`` tokens a row; as many anchors in one pass as fit
    into ``MOST_BYTES``."""
    model, size = drafter.model, len(text.token_ids)
    context = model.context(text.features[None], model.rotation(torch.arange(size, device=drafter.device)))
    found: list[Lattice] = []
    while len(found) < size - text.start:
        first = text.start + len(found)
        anchors = torch.arange(first, min(first + _batch(drafter, size), size), device=drafter.device)
        hidden = _denoised(drafter, text, context[..., :int(anchors[-1]), :], anchors)
        found += _lattices(drafter, hidden, width)
    return found


def _batch(drafter: DFlashDrafter, size: int) -> int:
    """Anchors a pass: keys, values and mask grow with the text, logits with the vocabulary."""
    config = drafter.model.config
    heads = 2 * config.num_key_value_heads * config.head_dim + config.num_attention_heads * drafter.block
    anchor_bytes = 4 * ((size + drafter.block) * heads + 3 * drafter.block * config.vocab_size)
    return int(max(1, min(64, MOST_BYTES // anchor_bytes)))


def _denoised(drafter: DFlashDrafter, text: ReadText, context: Tensor, anchors: Tensor) -> Tensor:
    """(anchors, block − 1, hidden): the slots behind each root."""
    count, block, length = len(anchors), drafter.block, context.shape[-2]
    tokens = torch.full((count, block), drafter.mask_id, device=drafter.device)
    tokens[:, 0] = torch.from_numpy(text.token_ids).to(drafter.device)[anchors]
    positions = anchors[:, None] + torch.arange(block, device=drafter.device)
    cosines, sines = (each.view(count, 1, block, -1) for each in drafter.model.rotation(positions.flatten()))
    before = torch.arange(length, device=drafter.device) < anchors[:, None]
    seen = torch.cat([before, before.new_ones(count, block)], -1)[:, None, None].expand(-1, 1, block, -1)
    hidden = drafter.model(drafter.embedding(tokens), (cosines, sines),
                           context.expand(-1, -1, count, -1, -1, -1), seen, joined)
    return hidden[:, 1:]


def _lattices(drafter: DFlashDrafter, hidden: Tensor, width: int) -> list[Lattice]:
    logits = drafter.head(hidden).float()
    whole = marginals(logits.flatten(0, 1), width)
    follow = np.broadcast_to(np.zeros(1, np.int32), (hidden.shape[1], *whole.tokens.shape[1:]))
    tokens, logprobs = (each.reshape(len(hidden), -1, *each.shape[1:]) for each in (whole.tokens, whole.logprobs))
    return [Lattice(*each, follow) for each in zip(tokens, logprobs, strict=True)]


def read_text(prompt_ids: Sequence[int], token_ids: Sequence[int], features: Sequence[Tensor]) -> ReadText:
    """The pieces of ``replay.reread`` as one."""
    ids = np.asarray([*prompt_ids, *token_ids], np.int32)
    return ReadText(ids, torch.cat(list(features)), len(prompt_ids))
