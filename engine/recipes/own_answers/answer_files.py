"""The target's own answers on disk: shards of token ids that are written once, whole, and never changed.

A shard is a compressed numpy archive: ``tokens`` uint16 or int32, all conversations one after another; per
conversation ``prompt`` and ``answer`` int32 (lengths in tokens), ``ended`` bool (whether the answer came to its end
or was cut) and ``row`` int32 (its line in the prompt file of the same name).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.recipes.batches import Conversation

SMALL_IDS = 2**16  # vocabularies up to this size are stored in two bytes per token
VARIED = 0.5  # the least share of distinct four-token sequences in an answer; below it, the answer repeats itself


@dataclass(frozen=True)
class AnswerRow:
    """One conversation, whether its answer ended, and its line in the prompt file."""

    talk: Conversation
    ended: bool
    row: int


def write_shard(path: Path, answers: Sequence[AnswerRow]) -> None:
    """Write the answers as a shard; a run that is killed meanwhile leaves none."""
    tokens = np.array([token for each in answers for token in each.talk.prompt + each.talk.response], np.int32)
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        np.savez_compressed(
            file, tokens=tokens.astype(np.uint16 if tokens.max(initial=0) < SMALL_IDS else np.int32),
            prompt=np.array([len(each.talk.prompt) for each in answers], np.int32),
            answer=np.array([len(each.talk.response) for each in answers], np.int32),
            ended=np.array([each.ended for each in answers], np.bool_),
            row=np.array([each.row for each in answers], np.int32))
    partial.replace(path)


def read_shard(path: Path) -> Iterator[AnswerRow]:
    """The answers of a shard."""
    with np.load(path, allow_pickle=False) as shard:
        kept = {name: shard[name] for name in ("tokens", "prompt", "answer", "ended", "row")}
    ends = np.cumsum(kept["prompt"] + kept["answer"])
    for place, end in enumerate(ends):
        middle = end - kept["answer"][place]
        first = middle - kept["prompt"][place]
        yield AnswerRow(
            Conversation(tuple(kept["tokens"][first:middle].tolist()), tuple(kept["tokens"][middle:end].tolist())),
            bool(kept["ended"][place]), int(kept["row"][place]))


def in_circles(tokens: Sequence[int]) -> bool:
    """Whether an answer repeats itself over and over."""
    runs = [tuple(tokens[place:place + 4]) for place in range(len(tokens) - 3)]
    return len(set(runs)) < VARIED * len(runs)
