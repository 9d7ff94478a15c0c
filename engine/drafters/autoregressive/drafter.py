"""Any causal language model that shares the target's tokenizer, as a drafter with a cache of its own.

It reads committed tokens, never the target's features, and runs once per depth: its proposals are conditionals (papers
000 and 001, where the drafters see their path).
"""

from __future__ import annotations

from copy import copy
from typing import Self

import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine.drafters.beam import PUBLISHED, Ancestry, Reach, grow
from engine.models.cache import TreeCache
from engine.models.device import in_inference_mode
from engine.models.layers import causal
from engine.records import Integers, Lattice


class AutoregressiveDrafter:
    """A language model as a drafter. ``vocabulary`` is the target's size; ids beyond it are never proposed."""

    def __init__(self, model: PreTrainedModel, vocabulary: int, reach: Reach = PUBLISHED) -> None:
        self.model, self.vocabulary, self.reach = model.eval(), vocabulary, reach
        self.config = model.config.get_text_config()
        self.limit = int(self.config.max_position_embeddings)
        self._weight = model.get_input_embeddings().weight
        self._cache: TreeCache | None = None
        self._pending: list[int] = []
        self._length = 0
        self._ancestry = Ancestry(0, self._weight)
        self._position = 0

    def begin(self, rows: int) -> None:
        """See ``plan.Drafter``: room for ``rows`` committed positions and one draft after them."""
        self._cache = TreeCache(self.config, min(rows, self.limit) + self.reach.rows, self._weight)
        self._pending, self._length = [], 0

    def observe(self, token_ids: Integers, features: Tensor) -> None:
        """See ``plan.Drafter``. The tokens wait for the next draft, whose first pass reads them with the root."""
        self._pending += token_ids.tolist()

    @in_inference_mode
    def draft(self, root: int, width: int) -> Lattice:
        """See ``plan.Drafter``. Nothing is proposed where the drafter's own context ends."""
        left = self.limit - self._length - len(self._pending)
        lattice = grow(self, root, self.reach.within(width, left))
        if self._cache is not None:
            self._cache.length = self._length
        return lattice

    def fork(self) -> Self:
        other = copy(self)
        other.release()
        return other

    def release(self) -> None:
        self._cache = None
        self._pending, self._length = [], 0

    def after_root(self, root: int) -> Tensor:
        """See ``beam.PathModel``. The cache keeps committed tokens but not the root's row; the next draft reads the
        root again as a committed token."""
        tokens = torch.tensor([*self._pending, root], device=self._weight.device)
        positions = torch.arange(self._length, self._length + len(tokens), device=tokens.device)
        mask = causal(len(tokens), self._length, self._weight)
        logits = self._rows(tokens, positions, mask, last=1)
        self._length += len(self._pending)
        self._pending = []
        self._ancestry = Ancestry(self._length, self._weight)
        self._position = self._length
        return logits

    def after(self, tokens: Tensor, parents: Tensor) -> Tensor:
        self._position += 1
        positions = torch.full_like(tokens, self._position)
        return self._rows(tokens, positions, self._ancestry.mask(parents), last=len(tokens))

    def _rows(self, tokens: Tensor, positions: Tensor, mask: Tensor, last: int) -> Tensor:
        """The logits (last, vocabulary) of the last rows of one pass after the cached rows."""
        output = self.model(
            input_ids=tokens[None].clamp(max=len(self._weight) - 1), position_ids=positions[None],
            attention_mask=mask, past_key_values=self._cache, use_cache=True, logits_to_keep=last)
        self._cache.length += len(tokens)  # type: ignore[union-attr]  # made by ``begin``, before any draft
        logits: Tensor = output.logits[0, :, :self.vocabulary].float()
        return logits
