"""The frozen target's outputs over conversations, kept on disk, so that drafters can be made of them repeatedly.

A folder a shard: ``tokens.npy`` int32 (n,), ``likely.npy`` int32 (n, k) the likeliest next tokens and ``logprobs.npy``
float16 (n, k) theirs, normalised over the whole vocabulary; ``talks.npy`` int64 (conversations, 3): where each begins,
its prompt's length and its whole length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from engine.recipes.batches import Conversation

LIKELY = 24  # next tokens whose probabilities are kept: in a greedy answer they have nearly all the mass
TOKENS_A_PASS = 6144
FILES = ("tokens", "likely", "logprobs", "talks")


@dataclass(frozen=True, eq=False)
class FeatureShard:
    """The arrays of a folder, memory-mapped."""

    tokens: NDArray[np.int32]
    likely: NDArray[np.int32]
    logprobs: NDArray[np.float16]
    talks: NDArray[np.int64]


def open_shard(folder: Path) -> FeatureShard:
    """The shard of a folder, memory-mapped."""
    return FeatureShard(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in FILES))


@torch.no_grad()
def write_features(target: Any, talks: Sequence[Conversation], folder: Path) -> None:
    """Read the conversations once with the target, and keep its likeliest tokens."""
    lengths = np.array([len(talk) for talk in talks])
    starts = np.cumsum(lengths) - lengths
    partial = folder.with_suffix(".part")
    partial.mkdir(parents=True, exist_ok=True)
    count = int(lengths.sum())
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        "tokens": ((count,), np.int32), "likely": ((count, LIKELY), np.int32),
        "logprobs": ((count, LIKELY), np.float16), "talks": ((len(talks), 3), np.int64)}
    files = {name: np.lib.format.open_memmap(partial / f"{name}.npy", "w+", dtype, shape)
             for name, (shape, dtype) in shapes.items()}
    files["talks"][:] = np.stack([starts, [len(talk.prompt) for talk in talks], lengths], 1)
    order = np.argsort(lengths, kind="stable")
    while len(order):
        many = max(1, TOKENS_A_PASS // int(lengths[order[min(len(order), 256) - 1]]))
        chosen, order = order[:many], order[many:]
        _write_pass(target, [talks[place] for place in chosen], starts[chosen], files)
    for file in files.values():
        file.flush()
    partial.replace(folder)


def _write_pass(target: Any, talks: Sequence[Conversation], starts: NDArray[np.int64], files: dict[str, Any]) -> None:
    """One pass over conversations of about one length."""
    rows = [torch.tensor(talk.prompt + talk.response) for talk in talks]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    read = target.model(input_ids=tokens, use_cache=False)
    for row, (start, talk) in enumerate(zip(starts, talks, strict=True)):
        end, first = start + len(talk), len(talk.prompt) - 1
        files["tokens"][start:end] = rows[row].numpy()
        logprobs = target.lm_head(read.last_hidden_state[row, first:len(talk)]).float().log_softmax(-1)
        likely = logprobs.topk(LIKELY, -1)
        files["likely"][start + first:end] = likely.indices.numpy()
        files["logprobs"][start + first:end] = likely.values.numpy()
