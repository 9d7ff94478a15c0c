"""Batches of conversations with the target's features: one conversation a row, rows of about one length.

A batch is a function of the seed, the step and the shards that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.training.batches import Batch
from engine.training.own_answers.features import FeatureShard, from_bits, open_shard

FENCE = 3725  # the three backquotes
STEP = 64  # lengths of rows are multiples of it: a compiled pass has few shapes
NEAR = 0.04  # of all conversations, by length: from so many on either side a batch's other rows are drawn
Wanted = Callable[[FeatureShard, NDArray[np.int64]], bool]


def is_code(shard: FeatureShard, talk: NDArray[np.int64]) -> bool:
    """Whether an answer holds a fenced block."""
    start, prompt, whole = talk
    return bool((shard.tokens[start + prompt:start + whole] == FENCE).any())


def is_prose(shard: FeatureShard, talk: NDArray[np.int64]) -> bool:
    """Whether it holds none."""
    return not is_code(shard, talk)


@dataclass(frozen=True, eq=False)
class TargetReading:
    """A batch and the target's outputs: taps (rows, length, taps × hidden) bfloat16; likely (rows, length, k)
    int64 and logprobs (rows, length, k) float32 of the token after each."""

    batch: Batch
    taps: Tensor
    likely: NDArray[np.int64]
    logprobs: NDArray[np.float32]


class AnswerShards:
    """The shards of a folder."""

    def __init__(self, folder: Path, wanted: Wanted | None = None) -> None:
        self.shards = [open_shard(each) for each in sorted(folder.iterdir()) if each.suffix != ".part"]
        places = [(number, talk) for number, shard in enumerate(self.shards) for talk, row in enumerate(shard.talks)
                  if wanted is None or wanted(shard, row)]
        places.sort(key=lambda place: self.shards[place[0]].talks[place[1], 2])
        self.places = places

    def __len__(self) -> int:
        return len(self.places)

    def answer_tokens(self) -> int:
        """Tokens of all answers."""
        return int(sum(self.shards[shard].talks[talk, 2] - self.shards[shard].talks[talk, 1]
                       for shard, talk in self.places))

    def reading(self, rows: int, seed: int, tapped: bool = True) -> TargetReading:
        """A batch of ``rows`` conversations of similar length, with or without taps."""
        draw = np.random.Generator(np.random.Philox(seed))
        middle, reach = int(draw.integers(len(self))), max(rows, int(len(self) * NEAR))
        low = min(max(0, middle - reach), max(0, len(self) - 2 * reach))
        chosen = low + draw.choice(min(2 * reach, len(self) - low), rows, replace=False)
        return self._joined([self.places[place] for place in chosen], tapped)

    def _joined(self, places: Sequence[tuple[int, int]], tapped: bool) -> TargetReading:
        """The conversations at these places, padded at their ends to the longest."""
        spans = [(self.shards[shard], self.shards[shard].talks[talk]) for shard, talk in places]
        rows, longest = len(spans), max(int(talk[2]) for _, talk in spans)
        length = -(-longest // STEP) * STEP
        width, likely = spans[0][0].taps.shape[1] * tapped, spans[0][0].likely.shape[1]
        tokens, answer = np.zeros((rows, length), np.int64), np.zeros((rows, length), np.bool_)
        taps = np.zeros((rows, length, width), np.uint16)
        ids, logprobs = np.zeros((rows, length, likely), np.int64), np.zeros((rows, length, likely), np.float32)
        for row, (shard, (start, prompt, whole)) in enumerate(spans):
            span = slice(start, start + whole)
            tokens[row, :whole] = shard.tokens[span]
            if tapped:
                taps[row, :whole] = shard.taps[span]
            ids[row, :whole], logprobs[row, :whole] = shard.likely[span], shard.logprobs[span]
            answer[row, prompt:whole] = True
        return TargetReading(Batch(tokens, answer.astype(np.float32), answer), from_bits(taps), ids, logprobs)


def frequent(library: AnswerShards, count: int) -> Tensor:
    """The ``count`` most frequent tokens of the answers, (count,) int64."""
    seen = np.zeros(2**17, np.int64)
    for shard, talk in library.places:
        start, prompt, whole = library.shards[shard].talks[talk]
        np.add.at(seen, library.shards[shard].tokens[start + prompt:start + whole], 1)
    return torch.from_numpy(np.argsort(-seen, kind="stable")[:count].copy())


def choices(labels: NDArray[np.int64], others: Tensor, count: int) -> Tensor:
    """The distinct labels, filled up with ``others`` to ``count`` tokens, (n,) int64."""
    own = torch.unique(torch.from_numpy(labels))
    return torch.cat([own, others[~torch.isin(others, own)][:max(0, count - len(own))]])
