"""Conversations as rows of tokens: whole items packed into rows of one length, and the weight of each token.

A batch is a function of (seed, step) alone, so a run that is resumed meets the same data as one that was not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from engine.recipes.corpus.items import Item
from engine.recipes.corpus.mixture import Shares, training_items

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


def conversation(item: Item, tokenizer: PreTrainedTokenizerBase) -> Conversation:
    """The item in the chat template."""
    prompt = f"<|im_start|>user\n{item.prompt}<|im_end|>\n<|im_start|>assistant\n"
    response = f"{item.response}<|im_end|>\n"
    return Conversation(
        tuple(tokenizer.encode(prompt, add_special_tokens=False)),
        tuple(tokenizer.encode(response, add_special_tokens=False)))


def make_batch(shares: Shares, tokenizer: PreTrainedTokenizerBase, shape: RowShape, seed: str) -> Batch:
    """A batch of fresh training items."""
    return packed(fresh(shares, tokenizer, shape, seed), shape)


def fresh(shares: Shares, tokenizer: PreTrainedTokenizerBase, shape: RowShape, seed: str) -> list[Conversation]:
    """Training items that together fill a batch, none longer than a row."""
    wanted, drawn = shape.rows * shape.length, 0
    pool: list[Conversation] = []
    for item in training_items(shares, seed):
        talk = conversation(item, tokenizer)
        if len(talk) <= shape.length:
            pool.append(talk)
            drawn += len(talk)
        if drawn >= wanted:
            break
    return pool


def packed(pool: Sequence[Conversation], shape: RowShape) -> Batch:
    """Pack conversations into rows, first fit, longest first; those that find no room are left out."""
    tokens = np.zeros((shape.rows, shape.length), np.int64)
    weights = np.zeros((shape.rows, shape.length), np.float32)
    answer = np.zeros((shape.rows, shape.length), np.bool_)
    filled = [0] * shape.rows
    for talk in sorted(pool, key=len, reverse=True):
        row = next((row for row in range(shape.rows) if filled[row] + len(talk) <= shape.length), None)
        if row is None:
            continue
        begin, middle, end = filled[row], filled[row] + len(talk.prompt), filled[row] + len(talk)
        tokens[row, begin:end] = talk.prompt + talk.response
        weights[row, begin + 1:middle] = PROMPT_WEIGHT
        weights[row, middle:end] = 1.0
        answer[row, middle:end] = True
        filled[row] = end
    return Batch(tokens, weights, answer)
