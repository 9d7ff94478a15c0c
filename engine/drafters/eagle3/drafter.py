"""An EAGLE-3 drafter: it reads features of committed tokens, and runs its layer once per depth."""

from __future__ import annotations

from copy import copy
from typing import Self

import torch
from torch import Tensor, nn

from engine.drafters.beam import PUBLISHED, Ancestry, Reach, grow
from engine.drafters.eagle3.model import Eagle3Model, Rows
from engine.models.device import in_inference_mode
from engine.models.layers import causal
from engine.records import Integers, Lattice


class Eagle3Drafter:
    """The drafter with the keys and values of its rows. A row is a position: its features, and the token after it.

    The last observed position's row needs the root, so it waits for the draft, and the next draft runs it again.
    """

    def __init__(self, model: Eagle3Model, embedding: nn.Module, reach: Reach = PUBLISHED) -> None:
        self.model, self.embedding, self.reach = model.eval(), embedding, reach
        self._room = torch.empty(0)
        self._features = torch.empty(0)
        self._tokens: list[int] = []
        self._hidden = torch.empty(0)
        self._length = self._written = self._position = 0
        self._ancestry = Ancestry(0, self._weight)

    @property
    def _weight(self) -> Tensor:
        return self.model.fc.weight

    @in_inference_mode
    def begin(self, rows: int) -> None:
        """See ``plan.Drafter``: room for ``rows`` committed positions and one draft after them."""
        config = self.model.config
        self._room = self._weight.new_empty(
            2, config.num_key_value_heads, rows + self.reach.rows, config.head_dim)
        self._features = self._weight.new_empty(0, self._weight.shape[1])
        self._tokens, self._length = [], 0

    @in_inference_mode
    def observe(self, token_ids: Integers, features: Tensor) -> None:
        """See ``plan.Drafter``. features (tokens, taps × hidden size)."""
        self._features = torch.cat([self._features, features])
        self._tokens += token_ids.tolist()

    @in_inference_mode
    def draft(self, root: int, width: int) -> Lattice:
        return grow(self, root, self.reach.within(width, width))

    def fork(self) -> Self:
        other = copy(self)
        other.release()
        return other

    def release(self) -> None:
        self._room = self._features = self._hidden = torch.empty(0)
        self._tokens, self._length = [], 0

    def after_root(self, root: int) -> Tensor:
        """See ``beam.PathModel``. Rows whose token is committed are kept; the one that holds the root is not."""
        count = len(self._tokens)
        following = torch.tensor([*self._tokens[1:], root], device=self._weight.device)
        self._written = self._length
        hidden = self._run(
            self.model.fc(self._features), following, self._length + torch.arange(count, device=following.device),
            causal(count, self._length, self._weight))
        self._hidden = hidden[-1:]
        self._length += count - 1
        self._position = self._length
        self._features, self._tokens = self._features[-1:], self._tokens[-1:]
        self._ancestry = Ancestry(self._length, self._weight)
        return self.model.logits(self._hidden)

    def after(self, tokens: Tensor, parents: Tensor) -> Tensor:
        self._position += 1
        positions = torch.full_like(tokens, self._position)
        self._hidden = self._run(self._hidden[parents], tokens, positions, self._ancestry.mask(parents))
        return self.model.logits(self._hidden)

    def _run(self, hidden: Tensor, tokens: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """The hidden states of one pass of the layer over rows after all written ones."""
        end = self._written + len(tokens)
        rows = Rows(hidden, self.embedding(tokens), self.model.rotation(positions), mask)
        output: Tensor = self.model.midlayer(rows, self._room[:, :, :end])
        self._written = end
        return output
