"""Conversations as rows of tokens: whole items packed into rows of one length, and the weight of each token.

A batch is a function of (seed, step) alone, so a run that is resumed meets the same data as one that was not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from recipes.corpus.items import Item
from recipes.corpus.mixture import Shares, training_items

PROMPT_WEIGHT = 0.1  # the prompt's numbers and names cannot be predicted: they would drown the answer's loss


@dataclass(frozen=True)
class RowShape:
    """Rows of a batch and tokens of a row."""

    rows: int
    length: int


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch: tokens (rows, length) int64; weights (rows, length) float32: how much predicting a token counts (0 for
    padding and for the first of an item); answer (rows, length) bool: tokens of a response, its end included."""

    tokens: NDArray[np.int64]
    weights: NDArray[np.float32]
    answer: NDArray[np.bool_]


@dataclass(frozen=True)
class Conversation:
    """One item's tokens: ``prompt`` up to the assistant's turn, ``response`` with the turn's end."""

    prompt: tuple[int, ...]
    response: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.response)


def tokenise_item(item: Item, tokenizer: PreTrainedTokenizerBase) -> Conversation:
    """Return the item in the chat template."""
    prompt = f"<|im_start|>user\n{item.prompt}<|im_end|>\n<|im_start|>assistant\n"
    response = f"{item.response}<|im_end|>\n"
    return Conversation(
        tuple(tokenizer.encode(prompt, add_special_tokens=False)),
        tuple(tokenizer.encode(response, add_special_tokens=False)))


def make_batch(shares: Shares, tokenizer: PreTrainedTokenizerBase, shape: RowShape, seed: str) -> Batch:
    """Return a batch of fresh training items."""
    return pack_rows(draw_conversations(shares, tokenizer, shape, seed), shape)


def draw_conversations(shares: Shares, tokenizer: PreTrainedTokenizerBase, shape: RowShape,
                       seed: str) -> list[Conversation]:
    """Draw training items that together fill a batch, none longer than a row."""
    wanted, drawn = shape.rows * shape.length, 0
    pool: list[Conversation] = []
    for item in training_items(shares, seed):
        conversation = tokenise_item(item, tokenizer)
        if len(conversation) <= shape.length:
            pool.append(conversation)
            drawn += len(conversation)
        if drawn >= wanted:
            break
    return pool


def pack_rows(pool: Sequence[Conversation], shape: RowShape) -> Batch:
    """Pack conversations into rows, first fit, longest first; those that find no room are left out."""
    tokens = np.zeros((shape.rows, shape.length), np.int64)
    weights = np.zeros((shape.rows, shape.length), np.float32)
    answer = np.zeros((shape.rows, shape.length), np.bool_)
    filled = [0] * shape.rows
    for conversation in sorted(pool, key=len, reverse=True):
        row = next((row for row in range(shape.rows) if filled[row] + len(conversation) <= shape.length), None)
        if row is None:
            continue
        begin, middle, end = filled[row], filled[row] + len(conversation.prompt), filled[row] + len(conversation)
        tokens[row, begin:end] = conversation.prompt + conversation.response
        weights[row, begin + 1:middle] = PROMPT_WEIGHT
        weights[row, middle:end] = 1.0
        answer[row, middle:end] = True
        filled[row] = end
    return Batch(tokens, weights, answer)


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
    """Draw random anchors inside the answers. A label outside the anchor's own answer has weight 0."""
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
    """Return what each slot sees, (rows, 1, m × slots, length + m × slots) bool: features before its anchor, and its
    block."""
    rows, count = anchors.shape
    before = torch.arange(length, device=anchors.device) < anchors[:, :, None]
    before = before.repeat_interleave(slots, 1)
    block = torch.arange(count, device=anchors.device).repeat_interleave(slots)
    itself = (block[:, None] == block).expand(rows, -1, -1)
    return torch.cat([before, itself], -1)[:, None]
