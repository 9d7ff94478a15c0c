"""Lets a rig's target write prompts and answer them until there is enough text for drafters to learn from.

    python -m recipes.own_answers.writing --rig smollm2 --tokens 3000000

Each round makes a prompt file if none waits, answers one, and keeps what the target says of the answers
(``features``). Everything is written once and whole, so it can be stopped at any time and goes on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from engine.checkpoints.loading import load_causal
from engine.checkpoints.tokenizers import load_tokenizer
from engine.errors import RequestError
from engine.requests.prompts import read_prompts
from recipes.batches import Conversation
from recipes.own_answers.decoder import BatchDecoder, write_answers
from recipes.own_answers.prompts import (
    CODE,
    MAX_EMPTY_BATCHES,
    HeldOut,
    Message,
    draw_seeded,
    let_target_write_prompts,
    read_conversations,
    write_prompts,
)
from recipes.own_answers.prompts import KINDS as SEEDS
from recipes.own_answers.shards import (
    HELD_OUT,
    AnswerRow,
    answers_folder,
    completion_marker,
    held_out_files,
    is_repetitive,
    read_shard,
    target_folder,
    work_folder,
    write_features,
    write_shard,
)
from recipes.training import fast_dtype

ROWS = 192  # answered together: with more, the KV cache no longer fits the processor's cache
MAX_ANSWER_TOKENS = 224  # tokens of an answer, each of which costs more than the one before
MAX_HELD_OUT_LENGTH = 320
SHORTEST = 4
KINDS: Mapping[str, int] = MappingProxyType({"self": 2, "seed": 1, "code": 1})  # prompt files of each kind, of four
MIN_NEW_PROMPTS = 16  # new prompts of a file; a kind that has fewer is used up
USED_UP = (f"The target writes no new prompts any more and the seeds are used up: no kind of {', '.join(KINDS)} has "
           f"{MIN_NEW_PROMPTS} prompts that were not answered yet; add lines to the lists of seeds, or ask for fewer "
           "tokens.")


class Writer:
    """The target at work, and the folders of what it writes."""

    def __init__(self, rig: str) -> None:
        folder = target_folder(rig)
        self.model: Any = load_causal(folder, fast_dtype(), torch.device("cpu"))
        self.tokenizer: Any = load_tokenizer(folder)
        self.decoder = BatchDecoder(self.model)
        self.held_out = HeldOut(held_out_files())
        self.remaining_kinds = list(KINDS)  # which may still give new prompts
        self.answers = answers_folder(rig)
        self.prompts, self.features = (work_folder(rig) / name for name in ("prompts", "features"))
        for folder_ in (self.prompts, self.answers, self.features):
            folder_.mkdir(parents=True, exist_ok=True)

    def round(self) -> str:
        """Write the next shard, and return its name."""
        waiting = [path for path in sorted(self.prompts.glob("*.jsonl"), key=lambda path: path.stem.split("-")[::-1])
                   if not self.shard(path.stem).exists()]
        path = waiting[0] if waiting else self.more_prompts()
        write_shard(self.shard(path.stem), self.answered(read_conversations(path)))
        self.read_again(path.stem)
        return path.stem

    def shard(self, name: str) -> Path:
        """Return the file of the answers to a prompt file."""
        return self.answers / f"{name}.npz"

    def more_prompts(self) -> Path:
        """Return a new prompt file, of the kind that there are fewest of among those that have new prompts;
        RequestError if none has."""
        shards = sorted(self.answers.glob("*.npz"))
        known = {self.turns_of(row)[0] for shard in shards for row in read_shard(shard)}
        counts = {kind: sum(shard.stem.startswith(kind) for shard in shards) for kind in KINDS}
        for kind in sorted(self.remaining_kinds, key=lambda kind: counts[kind] / KINDS[kind]):
            conversations = [messages for messages in self.new_conversations(kind, counts[kind], known, shards)
                             if not self.held_out.is_near(messages[-1]["content"])]
            # follow-ups do not count: any of them fits after other conversations
            if sum(len(messages) == 1 for messages in conversations) >= MIN_NEW_PROMPTS:
                path = self.prompts / f"{kind}-{counts[kind]:05d}.jsonl"
                write_prompts(path, conversations)
                return path
            self.remaining_kinds.remove(kind)
        raise RequestError(USED_UP)

    def new_conversations(self, kind: str, number: int, known: set[str], shards: Sequence[Path]) -> list[list[Message]]:
        """Return new conversations of a kind, if there are any."""
        if kind == "self":
            return let_target_write_prompts(self.decoder, self.tokenizer, number, known)
        return draw_seeded(number, known, shards, self.last_exchange, CODE if kind == "code" else tuple(SEEDS))

    def last_exchange(self, answered: AnswerRow) -> list[Message]:
        """Return the last exchange of an answered conversation, as messages."""
        answer = self.tokenizer.decode(answered.conversation.response[:-1])
        return [{"role": "user", "content": self.turns_of(answered)[-1]}, {"role": "assistant", "content": answer}]

    def turns_of(self, answered: AnswerRow) -> list[str]:
        """Return the user's turns of an answered conversation."""
        parts = self.tokenizer.decode(answered.conversation.prompt).split("<|im_start|>user\n")[1:]
        return [part.split("<|im_end|>")[0] for part in parts]

    def answered(self, conversations: Sequence[Sequence[Message]]) -> list[AnswerRow]:
        """Return the target's greedy answers, cut where they loop; prompts of similar length are answered together."""
        prompts = [self.tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
                   for messages in conversations]
        order = np.argsort([len(prompt) for prompt in prompts], kind="stable").tolist()
        rows_kept: list[AnswerRow] = []
        for first in range(0, len(order), ROWS):
            rows = order[first:first + ROWS]
            texts = write_answers(
                self.decoder, [prompts[row] for row in rows], MAX_ANSWER_TOKENS, self.tokenizer.eos_token_id)
            rows_kept += [AnswerRow(Conversation(tuple(prompts[row]), text.tokens), text.ended, row)
                      for row, text in zip(rows, texts, strict=True)
                      if len(text.tokens) >= SHORTEST and not is_repetitive(text.tokens)]
        return rows_kept

    def hold_out(self) -> None:
        """Answer the held-out prompts, on which drafters are measured."""
        folder = self.features.with_name(HELD_OUT)
        if folder.exists():
            return
        prompts = [self.tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt.text}], add_generation_prompt=True)["input_ids"]
            for prompt in read_prompts(held_out_files()[0])]
        texts = write_answers(self.decoder, prompts, MAX_HELD_OUT_LENGTH, self.tokenizer.eos_token_id)
        conversations = [Conversation(tuple(prompt), text.tokens) for prompt, text in zip(prompts, texts, strict=True)]
        write_features(self.model, conversations, folder)

    def read_again(self, name: str) -> None:
        """Keep the target's features of a shard."""
        if (self.features / name).exists():
            return
        if conversations := [row.conversation for row in read_shard(self.shard(name))]:
            write_features(self.model, conversations, self.features / name)

    def tokens(self) -> int:
        """Count the tokens of all answers so far."""
        return sum(len(row.conversation.response) for path in self.answers.glob("*.npz") for row in read_shard(path))


def main() -> None:
    """Write until there is enough; ends with one sentence if there is nothing left to ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", default="smollm2")
    parser.add_argument("--tokens", type=int, default=3_000_000, help="tokens of answers in all")
    args = parser.parse_args()
    writer = Writer(args.rig)
    writer.hold_out()
    for path in sorted(writer.answers.glob("*.npz")):
        writer.read_again(path.stem)
    try:
        write(writer, args.tokens)
    except RequestError as error:
        raise SystemExit(f"{error} So far there are {writer.tokens()} of {args.tokens} tokens.") from error
    completion_marker(args.rig).touch()


def write(writer: Writer, tokens: int) -> None:
    """Write shards until all answers have this many tokens; RequestError if no more can be had."""
    have, empty_files = writer.tokens(), 0
    while have < tokens:
        began = time.perf_counter()
        name = writer.round()
        more = sum(len(row.conversation.response) for row in read_shard(writer.shard(name)))
        have, empty_files = have + more, 0 if more else empty_files + 1
        if empty_files == MAX_EMPTY_BATCHES:
            raise RequestError(f"None of the answers to the last {empty_files} files of prompts could be kept: they "
                               "are too short or repeat themselves; choose another target.")
        print(f"{name}: {more} tokens, {more / (time.perf_counter() - began):.0f} a second, {have} in all", flush=True)


if __name__ == "__main__":
    main()
