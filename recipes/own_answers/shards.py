"""The target's own answers and its outputs over them, on disk: shards that are written once, whole, never changed.

Answers are slow to generate, so they are committed beside the rig's card. Everything derived from them stays outside
the repository.

A shard is a compressed numpy archive: ``tokens`` uint16 or int32, all conversations one after another; per
conversation ``prompt`` and ``answer`` int32 (lengths in tokens), ``ended`` bool (whether the answer reached its end)
and ``row`` int32 (its line in the prompt file of the same name).

A shard of outputs is a folder: ``tokens.npy`` int32 (n,), ``likely.npy`` int32 (n, k) the likeliest next tokens and
``logprobs.npy`` float16 (n, k) theirs, normalised over the whole vocabulary; ``talks.npy`` int64 (conversations, 3):
where each begins, its prompt's length and its whole length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from engine.machine.files import kept_files
from engine.requests.rig_names import RIGS_FOLDER
from recipes.batches import Conversation

SMALL_IDS = 2**16  # vocabularies up to this size are stored in two bytes per token
MIN_DISTINCT_FRACTION = 0.5  # of four-token sequences; an answer with fewer distinct ones repeats itself


@dataclass(frozen=True)
class AnswerRow:
    """One conversation, whether its answer ended, and its line in the prompt file."""

    conversation: Conversation
    ended: bool
    row: int


def write_shard(path: Path, answers: Sequence[AnswerRow]) -> None:
    """Write the answers as a shard; a run that is killed meanwhile leaves none."""
    conversations = [answer.conversation for answer in answers]
    tokens = np.array([token for each in conversations for token in each.prompt + each.response], np.int32)
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        np.savez_compressed(
            file, tokens=tokens.astype(np.uint16 if tokens.max(initial=0) < SMALL_IDS else np.int32),
            prompt=np.array([len(each.prompt) for each in conversations], np.int32),
            answer=np.array([len(each.response) for each in conversations], np.int32),
            ended=np.array([answer.ended for answer in answers], np.bool_),
            row=np.array([answer.row for answer in answers], np.int32))
    partial.replace(path)


def read_shard(path: Path) -> Iterator[AnswerRow]:
    """Yield the answers of a shard."""
    with np.load(path, allow_pickle=False) as shard:
        arrays = {name: shard[name] for name in ("tokens", "prompt", "answer", "ended", "row")}
    ends = np.cumsum(arrays["prompt"] + arrays["answer"])
    for row, end in enumerate(ends):
        middle = end - arrays["answer"][row]
        first = middle - arrays["prompt"][row]
        yield AnswerRow(
            Conversation(tuple(arrays["tokens"][first:middle].tolist()), tuple(arrays["tokens"][middle:end].tolist())),
            bool(arrays["ended"][row]), int(arrays["row"][row]))


def is_repetitive(tokens: Sequence[int]) -> bool:
    """Return whether an answer repeats itself over and over."""
    sequences = [tuple(tokens[start:start + 4]) for start in range(len(tokens) - 3)]
    return len(set(sequences)) < MIN_DISTINCT_FRACTION * len(sequences)


LIKELY = 24  # next tokens whose probabilities are stored; in a greedy answer they have nearly all the mass
TOKENS_PER_PASS = 6144
FILES = ("tokens", "likely", "logprobs", "talks")


@dataclass(frozen=True, eq=False)
class FeatureShard:
    """The arrays of a folder, memory-mapped."""

    tokens: NDArray[np.int32]
    likely: NDArray[np.int32]
    logprobs: NDArray[np.float16]
    conversations: NDArray[np.int64]


def open_shard(folder: Path) -> FeatureShard:
    """Return the shard of a folder, memory-mapped."""
    return FeatureShard(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in FILES))


@torch.no_grad()
def write_features(target: Any, conversations: Sequence[Conversation], folder: Path) -> None:
    """Run the target over the conversations once, and store its likeliest tokens."""
    lengths = np.array([len(conversation) for conversation in conversations])
    starts = np.cumsum(lengths) - lengths
    partial = folder.with_suffix(".part")
    partial.mkdir(parents=True, exist_ok=True)
    count = int(lengths.sum())
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        "tokens": ((count,), np.int32), "likely": ((count, LIKELY), np.int32),
        "logprobs": ((count, LIKELY), np.float16), "talks": ((len(conversations), 3), np.int64)}
    files = {name: np.lib.format.open_memmap(partial / f"{name}.npy", "w+", dtype, shape)
             for name, (shape, dtype) in shapes.items()}
    files["talks"][:] = np.stack([starts, [len(conversation.prompt) for conversation in conversations], lengths], 1)
    order = np.argsort(lengths, kind="stable")
    while len(order):
        size = max(1, TOKENS_PER_PASS // int(lengths[order[min(len(order), 256) - 1]]))
        chosen, order = order[:size], order[size:]
        _write_pass(target, [conversations[index] for index in chosen], starts[chosen], files)
    for file in files.values():
        file.flush()
    partial.replace(folder)


def _write_pass(target: Any, conversations: Sequence[Conversation], starts: NDArray[np.int64],
                files: dict[str, Any]) -> None:
    """Write in one pass over conversations of about one length."""
    rows = [torch.tensor(conversation.prompt + conversation.response) for conversation in conversations]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    read = target.model(input_ids=tokens, use_cache=False)
    for row, (start, conversation) in enumerate(zip(starts, conversations, strict=True)):
        end, first = start + len(conversation), len(conversation.prompt) - 1
        files["tokens"][start:end] = rows[row].numpy()
        logprobs = target.lm_head(read.last_hidden_state[row, first:len(conversation)]).float().log_softmax(-1)
        likely = logprobs.topk(LIKELY, -1)
        files["likely"][start + first:end] = likely.indices.numpy()
        files["logprobs"][start + first:end] = likely.values.numpy()


HELD_OUT = "held-out"  # the folder of features of the conversations that drafters are measured on


def target_folder(rig: str) -> Path:
    """Return the converted target of a rig."""
    return kept_files() / "rigs" / rig / "target"


def answers_folder(rig: str) -> Path:
    """Return the folder of the target's own answers."""
    return RIGS_FOLDER / rig / "answers"


def work_folder(rig: str) -> Path:
    """Return the folder of a rig's prompts, features and unfinished drafters, each in a folder of its own."""
    return kept_files() / "training" / rig


def completion_marker(rig: str) -> Path:
    """Return the file that exists once enough answers are written."""
    return work_folder(rig) / "enough"


def held_out_files() -> list[Path]:
    """Return the files of held-out prompts that drafters are measured on."""
    prompts = RIGS_FOLDER / "prompts"
    return [prompts / "people.jsonl", *sorted(prompts.glob("reworded.jsonl"))]
