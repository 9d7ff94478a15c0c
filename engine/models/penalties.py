"""Penalties on tokens that are already in the text, and biases, as vLLM and the OpenAI API define them.

Each node of a tree counts the text so far and its own path, so its logits equal plain decoding's at that position.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.errors import RequestError
from engine.records import Integers, PackedTree, Sampling


class LogitsAdjustment:
    """Adjusts a text's logits, and counts its tokens. The last ``forced`` tokens of the prompt count as written."""

    def __init__(self, sampling: Sampling, prompt_ids: Sequence[int], vocabulary: int, forced: int = 0) -> None:
        unknown = [token for token, _ in sampling.logit_bias if token >= vocabulary]
        if unknown:
            raise RequestError(
                f"The logit bias names the token {unknown[0]}; the target's last one is {vocabulary - 1}.")
        self._sampling = sampling
        self._in_prompt = np.zeros(vocabulary, np.bool_)
        start = len(prompt_ids) - forced
        self._in_prompt[list(prompt_ids[:start])] = True
        self._written = np.zeros(vocabulary, np.int32)  # count by token
        self.commit(np.asarray(prompt_ids[start:], np.int32))

    def commit(self, tokens: Integers) -> None:
        np.add.at(self._written, tokens, 1)

    def adjust(self, logits: Tensor, tree: PackedTree | None = None) -> Tensor:
        """Apply biases and penalties to logits (rows, vocabulary) of a tree's rows, or, without a tree, of the prompt's
        last position. Returns float32."""
        sampling, device = self._sampling, logits.device
        logits = logits.float()
        if sampling.logit_bias:
            biased, biases = (torch.tensor(column, device=device) for column in zip(*sampling.logit_bias, strict=True))
            logits = logits.index_add(-1, biased, biases.float().expand(len(logits), -1))
        if not sampling.penalises:
            return logits
        drafted = tree.tokens if tree else np.zeros(0, np.int32)
        tokens = np.union1d(np.flatnonzero(self._in_prompt | (self._written > 0)), drafted)  # no others are penalised
        counts = np.tile(self._written[tokens], (len(logits), 1))
        if tree:
            order = np.argsort(drafted, kind="stable")  # equal tokens side by side
            distinct, first = np.unique(drafted[order], return_index=True)
            counts[:, np.searchsorted(tokens, distinct)] += np.add.reduceat(
                tree.visible[:, order], first, axis=1, dtype=np.int32)
        columns, times = torch.from_numpy(tokens).long().to(device), torch.from_numpy(counts).to(device)
        in_text = (times > 0) | torch.from_numpy(self._in_prompt[tokens]).to(device)
        values = logits.index_select(-1, columns)
        repeated = torch.where(values > 0, values / sampling.repetition_penalty, values * sampling.repetition_penalty)
        values = torch.where(in_text, repeated, values)
        values = values - sampling.frequency_penalty * times - sampling.presence_penalty * (times > 0)
        return logits.index_copy(-1, columns, values)
