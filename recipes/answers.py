"""Training items with the target's own answers: a drafter has to predict the target's text, not the corpus's.

Where the corpus draws one of several ways to put it, the target always takes its likeliest: of its greedy answers to
training prompts 14 % are the corpus' own, word by word.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM

from recipes.batches import Batch, Conversation, RowShape, draw_conversations, pack_rows
from recipes.corpus.mixture import Shares

TOGETHER = 8  # batches whose items are answered together: a pass over many rows costs little more than one over few
READINGS = 4  # of a batch: each reading lays its blocks elsewhere, and an answer costs more than learning from it


class OwnAnswers:
    """The batch of each step: fresh items that the target has answered, each batch in four steps. It is a function of
    the seed, the step and the target, so a resumed run gets the same batches."""

    def __init__(self, target: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerBase, shares: Shares, shape: RowShape,
                 seed: str) -> None:
        self.target = deepcopy(target).bfloat16()  # as the rig runs it
        self.tokenizer = tokenizer
        self.shares, self.shape, self.seed = shares, shape, seed
        self._group, self._pools = -1, list[list[Conversation]]()

    def batch(self, step: int) -> Batch:
        """Return the batch of this step."""
        group, place = step // (TOGETHER * READINGS), step % TOGETHER
        if group != self._group:
            self._pools, self._group = self._answered(group), group
        return pack_rows(self._pools[place], self.shape)

    def _answered(self, group: int) -> list[list[Conversation]]:
        pools = [draw_conversations(self.shares, self.tokenizer, self.shape, f"{self.seed}-{group}-{number}")
                 for number in range(TOGETHER)]
        conversations = [conversation for pool in pools for conversation in pool]
        answers = iter(answer_greedily(self.target, self.tokenizer, conversations, self.shape.length))
        return [[answer for answer in (next(answers) for _ in pool) if answer] for pool in pools]


@torch.no_grad()
def answer_greedily(target: Any, tokenizer: PreTrainedTokenizerBase, conversations: Sequence[Conversation],
                    longest: int) -> list[Conversation | None]:
    """Return each conversation with the target's greedy answer; None if it does not end within ``longest`` tokens."""
    width = max(len(conversation.prompt) for conversation in conversations)
    prompts = torch.zeros(len(conversations), width, dtype=torch.long)
    seen = torch.zeros_like(prompts)
    for row, conversation in enumerate(conversations):
        prompts[row, width - len(conversation.prompt):] = torch.tensor(conversation.prompt)
        seen[row, width - len(conversation.prompt):] = 1
    written = target.generate(
        input_ids=prompts.to(target.device), attention_mask=seen.to(target.device), do_sample=False,
        max_new_tokens=longest - min(len(conversation.prompt) for conversation in conversations))[:, width:].tolist()
    after = tuple(tokenizer.encode("\n", add_special_tokens=False))  # the template's, after the end of a turn
    answers: list[Conversation | None] = []
    for conversation, tokens in zip(conversations, written, strict=True):
        end = tokens.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in tokens else longest
        answered = Conversation(conversation.prompt, (*tokens[:end], *after))
        answers.append(answered if len(answered) <= longest else None)
    return answers
