"""Drafters that see their own path: one pass per depth, over the best nodes of the depth before.

The result is a ``Lattice`` with one row per expanded node, so the loop asks for it once and every builder can read it.
Nodes are expanded as in EAGLE-2, on which papers 000 and 001 build: the best of a depth by cumulative probability.
"""

from abc import ABC, abstractmethod
from copy import copy
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from engine.models.cache import LayeredCache
from engine.models.device import in_inference_mode
from engine.models.layers import additive, causal
from engine.models.rows import to_host
from engine.models.target import UNLIMITED
from engine.records import Integers, Lattice


class BeamShape(NamedTuple):
    """How far a draft reaches: ``depth`` passes, and at each depth ``width`` expanded nodes with ``width`` children
    each."""

    depth: int
    width: int


PUBLISHED_BEAM = BeamShape(depth=6, width=10)


class PathDrafter(ABC):
    """A drafter with a cache of its own, in the dtype and on the device of ``weight``.

    Observed tokens wait for the next draft, whose first pass reads them with the root. The root's row is not kept: the
    next draft reads it again, as a committed token.
    """

    first_unread = 0  # the first of the waiting tokens that a draft reads

    def __init__(self, weight: Tensor, beam: BeamShape, limit: int = UNLIMITED) -> None:
        self.beam, self.limit, self._weight = beam, limit, weight
        self.release()

    def begin(self, rows: int) -> None:
        """See ``protocols.Drafter``: room for ``rows`` committed positions and one draft after them."""
        self._waiting: list[int] = []
        self._length = 0  # rows that are kept
        drafted = 1 + self.beam.depth * self.beam.width  # the root and the expanded nodes
        self._cache = LayeredCache(min(rows, self.limit) + drafted if rows else 0)

    def observe(self, token_ids: Integers, features: Tensor) -> None:
        """See ``protocols.Drafter``. features (tokens, taps × hidden size)."""
        self._waiting += token_ids.tolist()

    def fork(self) -> Self:
        other = copy(self)
        other.release()
        return other

    def release(self) -> None:
        self.begin(0)

    @in_inference_mode
    def draft(self, root: int, width: int) -> Lattice:
        """Return a lattice (depth, width + 1, width); empty at the end of the drafter's context.

        The last row is a sink of probability 0 that unexpanded cells point to. Logprobs are normalised over the whole
        vocabulary.
        """
        positions = self.limit - self._length - len(self._waiting)
        depth_limit, width = max(0, min(self.beam.depth, width, positions)), min(self.beam.width, width)
        levels: list[BeamLevel] = []
        scores = torch.zeros(1, device=self._weight.device)
        tokens = parents = scores.long()
        for depth in range(depth_limit):
            logits = self._after(depth, tokens, parents) if depth else self._after_root(root)
            top = logits.topk(min(width, logits.shape[-1]), -1)
            logprobs = (top.values - logits.logsumexp(-1, keepdim=True)).clamp_(max=0.0)
            totals = (scores[:, None] + logprobs).flatten()
            scores, best = totals.topk(min(width, len(totals)))
            follow = torch.full_like(totals, width, dtype=torch.long)
            follow[best] = torch.arange(len(best), device=follow.device)
            levels.append(BeamLevel(top.indices, logprobs, follow.view_as(logprobs)))
            tokens, parents = top.indices.flatten()[best], best // logprobs.shape[-1]
        return lattice_of(levels, width)

    def _after_root(self, root: int) -> Tensor:
        tokens = torch.tensor([*self._waiting[self.first_unread:], root], device=self._weight.device)
        positions = torch.arange(self._length, self._length + len(tokens), device=tokens.device)
        self._cache.length = self._length
        logits = self._logits(tokens, positions, causal(len(tokens), self._length, self._weight), None)
        self._cache.length += len(tokens)
        kept = len(tokens) - 1
        self._waiting, self._length = self._waiting[kept:], self._length + kept
        self._seen = torch.ones(1, 1, dtype=torch.bool, device=tokens.device)  # which row of the draft sees which
        return logits

    def _after(self, depth: int, tokens: Tensor, parents: Tensor) -> Tensor:
        itself = torch.eye(len(parents), dtype=torch.bool, device=parents.device)
        self._seen = torch.cat([self._seen[parents], itself], -1)
        mask = additive(self._seen, self._length, self._weight)
        logits = self._logits(tokens, torch.full_like(tokens, self._length + depth), mask, parents)
        self._cache.length += len(tokens)
        return logits

    @abstractmethod
    def _logits(self, tokens: Tensor, positions: Tensor, mask: Tensor, parents: Tensor | None) -> Tensor:
        """Logits (n, vocabulary) float32 of a pass over tokens (n,) int64 at positions (n,), which writes its rows
        after those in ``_cache``; ``mask`` (1, 1, n, all rows so far) is additive. ``parents`` (n,) int64 are their
        rows in the pass before. Without parents it is the first pass of a draft: its rows lie after the ``_length``
        kept ones, and only the last one's logits (1, vocabulary) are returned."""


class FeatureDrafter(PathDrafter):
    """A path drafter whose row stands for a position: it joins the target's features of that position and the
    embedding of the token *after* it, and predicts what follows that token. At positions that the target has not read,
    the parent row's output stands in for features.

    The last observed position's row needs the root's embedding, so it is run in the draft, and the next draft runs it
    again.
    """

    first_unread = 1  # the first one's embedding stands in a row that is kept already, or in none

    def __init__(self, embedding: nn.Module, weight: Tensor, beam: BeamShape, columns: Tensor | slice) -> None:
        self.embedding, self._columns = embedding, columns
        super().__init__(weight, beam)

    def begin(self, rows: int) -> None:
        super().begin(rows)
        self._features: list[Tensor] = []
        self._states = self._weight.new_empty(0)  # of the rows of the pass before

    @in_inference_mode
    def observe(self, token_ids: Integers, features: Tensor) -> None:
        super().observe(token_ids, features)
        self._features.append(features[:, self._columns])

    def _logits(self, tokens: Tensor, positions: Tensor, mask: Tensor, parents: Tensor | None) -> Tensor:
        if parents is None:
            features = torch.cat(self._features)
            self._features, states = [features[-1:]], self._fused(features)
        else:
            states = self._states[parents]
        states = self._step(states, self.embedding(tokens), positions, mask)
        self._states = states[-1:] if parents is None else states
        return self._predicted(self._states)

    @abstractmethod
    def _fused(self, features: Tensor) -> Tensor:
        """Return the states (rows, hidden size) that stand for the target's features (rows, taps × hidden size)."""

    @abstractmethod
    def _step(self, states: Tensor, embedded: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """The next states (rows, hidden size) of rows with these states and embedded tokens (rows, hidden size)."""

    @abstractmethod
    def _predicted(self, states: Tensor) -> Tensor:
        """Logits (rows, vocabulary) float32 of next states."""


class BeamLevel(NamedTuple):
    """One depth on the device, all (rows, k): tokens, logprobs, and the row of the next depth that a cell leads to."""

    tokens: Tensor
    logprobs: Tensor
    follow: Tensor


def lattice_of(levels: list[BeamLevel], width: int) -> Lattice:
    """Levels of up to ``width`` rows as one lattice on the host; what leads to row ``width`` leads nowhere."""
    shape = len(levels), width + 1, levels[0].tokens.shape[-1] if levels else 1
    tokens, follow = np.zeros(shape, np.int32), np.full(shape, width, np.int32)
    logprobs = np.full(shape, -np.inf, np.float32)
    if levels:
        parts = [[level.tokens.int(), level.logprobs, level.follow.int()] for level in levels]
        on_host = iter(to_host(*(part for level in parts for part in level)))
        for depth, level in enumerate(levels):
            for array in (tokens, logprobs, follow):
                array[depth, :len(level.tokens)] = next(on_host)
    return Lattice(tokens, logprobs, follow)
