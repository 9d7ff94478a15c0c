"""The frozen target's outputs over conversations, kept on disk, so that a drafter can learn from them repeatedly.

A folder a shard: ``tokens.npy`` int32 (n,), ``taps.npy`` uint16 (n, taps × hidden size: the bits of bfloat16),
``likely.npy`` int32 (n, k) the likeliest next tokens and ``logprobs.npy`` float16 (n, k) theirs, normalised over the
whole vocabulary; ``talks.npy`` int64 (conversations, 3): where each begins, its prompt's length and its whole length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.training.batches import Conversation

LIKELY = 24  # next tokens whose probabilities are kept: in a greedy answer they have nearly all the mass
TOKENS_A_PASS = 6144
FILES = ("tokens", "taps", "likely", "logprobs", "talks")


@dataclass(frozen=True, eq=False)
class FeatureShard:
    """The arrays of a folder, memory-mapped."""

    tokens: NDArray[np.int32]
    taps: NDArray[np.uint16]
    likely: NDArray[np.int32]
    logprobs: NDArray[np.float16]
    talks: NDArray[np.int64]


def open_shard(folder: Path) -> FeatureShard:
    """The shard of a folder, memory-mapped."""
    return FeatureShard(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in FILES))


@torch.no_grad()
def write_features(target: Any, taps: Sequence[int], talks: Sequence[Conversation], folder: Path) -> None:
    """Read the conversations once with the target, and keep its features and likeliest tokens."""
    lengths = np.array([len(talk) for talk in talks])
    starts = np.cumsum(lengths) - lengths
    partial = folder.with_suffix(".part")
    partial.mkdir(parents=True, exist_ok=True)
    count, width = int(lengths.sum()), len(taps) * target.config.hidden_size
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        "tokens": ((count,), np.int32), "taps": ((count, width), np.uint16), "likely": ((count, LIKELY), np.int32),
        "logprobs": ((count, LIKELY), np.float16), "talks": ((len(talks), 3), np.int64)}
    files = {name: np.lib.format.open_memmap(partial / f"{name}.npy", "w+", dtype, shape)
             for name, (shape, dtype) in shapes.items()}
    files["talks"][:] = np.stack([starts, [len(talk.prompt) for talk in talks], lengths], 1)
    order = np.argsort(lengths, kind="stable")
    while len(order):
        many = max(1, TOKENS_A_PASS // int(lengths[order[min(len(order), 256) - 1]]))
        chosen, order = order[:many], order[many:]
        _write_pass(target, taps, [talks[place] for place in chosen], starts[chosen], files)
    for file in files.values():
        file.flush()
    partial.replace(folder)


def _write_pass(target: Any, taps: Sequence[int], talks: Sequence[Conversation], starts: NDArray[np.int64],
                files: dict[str, Any]) -> None:
    """One pass over conversations of about one length."""
    rows = [torch.tensor(talk.prompt + talk.response) for talk in talks]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    read = target.model(input_ids=tokens, use_cache=False, output_hidden_states=True)
    features = torch.cat([read.hidden_states[layer + 1] for layer in taps], -1)
    for row, (start, talk) in enumerate(zip(starts, talks, strict=True)):
        end, first = start + len(talk), len(talk.prompt) - 1
        files["tokens"][start:end] = rows[row].numpy()
        files["taps"][start:end] = as_bits(features[row, :len(talk)])
        logprobs = target.lm_head(read.last_hidden_state[row, first:len(talk)]).float().log_softmax(-1)
        likely = logprobs.topk(LIKELY, -1)
        files["likely"][start + first:end] = likely.indices.numpy()
        files["logprobs"][start + first:end] = likely.values.numpy()


def as_bits(states: Tensor) -> NDArray[np.uint16]:
    """States (…) rounded to bfloat16, as their bits (…) uint16."""
    bits: NDArray[np.int16] = states.bfloat16().contiguous().view(torch.int16).numpy()
    return bits.view(np.uint16)


def from_bits(bits: NDArray[np.uint16]) -> Tensor:
    """States (…) bfloat16 from their bits (…) uint16."""
    return torch.from_numpy(np.array(bits).view(np.int16)).view(torch.bfloat16)
