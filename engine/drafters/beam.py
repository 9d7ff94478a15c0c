"""Drafters that see their own path: a beam search with one pass per depth.

The result is a ``Lattice`` with one row per expanded node, so every builder can read it. As in EAGLE-2, on which papers
000 and 001 build, the best nodes of a depth by cumulative probability are expanded.
"""

from abc import ABC, abstractmethod
from copy import copy
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from engine.models.cache import LayeredCache
from engine.models.device import in_inference_mode
from engine.models.layers import additive_mask, causal_mask
from engine.models.rows import to_host
from engine.models.target import UNLIMITED
from engine.records import Integers, Lattice


class BeamShape(NamedTuple):
    """``depth`` passes; at each depth, ``width`` nodes are expanded to ``width`` children each."""

    depth: int
    width: int


PUBLISHED_BEAM = BeamShape(depth=6, width=10)


class PathDrafter(ABC):
    """A drafter with its own cache, in the dtype and on the device of ``weight``.

    A draft's first pass reads the tokens observed since the last one, then the root. The root's row is not kept: the
    next draft reads it again, as a committed token.
    """

    first_unread = 0  # index of the first observed token that the next draft reads

    def __init__(self, weight: Tensor, beam: BeamShape, limit: int = UNLIMITED) -> None:
        self.beam, self.limit, self._weight = beam, limit, weight
        self.release()

    def begin(self, rows: int) -> None:
        """See ``protocols.Drafter``: room for ``rows`` committed positions and one draft after them."""
        self._unread: list[int] = []  # tokens observed since the last draft
        self._length = 0  # committed rows of the cache
        drafted = 1 + self.beam.depth * self.beam.width  # the root and the expanded nodes
        self._cache = LayeredCache(min(rows, self.limit) + drafted if rows else 0)

    def observe(self, token_ids: Integers, features: Tensor) -> None:
        """See ``protocols.Drafter``. features (tokens, taps × hidden size)."""
        self._unread += token_ids.tolist()

    def fork(self) -> Self:
        other = copy(self)
        other.release()
        return other

    def release(self) -> None:
        self.begin(0)

    @in_inference_mode
    def draft(self, root: int, width: int) -> Lattice:
        """Return a lattice (depth, width + 1, width); empty at the end of the drafter's context. The last row has
        probability 0, and unexpanded cells lead to it."""
        positions = self.limit - self._length - len(self._unread)
        depth_limit, width = max(0, min(self.beam.depth, width, positions)), min(self.beam.width, width)
        levels: list[BeamLevel] = []
        scores = torch.zeros(1, device=self._weight.device)
        tokens = parents = scores.long()
        for depth in range(depth_limit):
            logits = self._expand(depth, tokens, parents) if depth else self._read_root(root)
            top = logits.topk(min(width, logits.shape[-1]), -1)
            logprobs = (top.values - logits.logsumexp(-1, keepdim=True)).clamp_(max=0.0)
            totals = (scores[:, None] + logprobs).flatten()
            scores, best = totals.topk(min(width, len(totals)))
            follow = torch.full_like(totals, width, dtype=torch.long)
            follow[best] = torch.arange(len(best), device=follow.device)
            levels.append(BeamLevel(top.indices, logprobs, follow.view_as(logprobs)))
            tokens, parents = top.indices.flatten()[best], best // logprobs.shape[-1]
        return lattice_of(levels, width)

    def _read_root(self, root: int) -> Tensor:
        """Read the observed tokens and the root; return the logits after the root."""
        tokens = torch.tensor([*self._unread[self.first_unread:], root], device=self._weight.device)
        positions = torch.arange(self._length, self._length + len(tokens), device=tokens.device)
        self._cache.length = self._length
        logits = self._logits(tokens, positions, causal_mask(len(tokens), self._length, self._weight), None)
        self._cache.length += len(tokens)
        kept = len(tokens) - 1
        self._unread, self._length = self._unread[kept:], self._length + kept
        self._seen = torch.ones(1, 1, dtype=torch.bool, device=tokens.device)  # which row of the draft sees which
        return logits

    def _expand(self, depth: int, tokens: Tensor, parents: Tensor) -> Tensor:
        """Run these tokens, children of the rows ``parents`` of the pass before; return the logits after each."""
        itself = torch.eye(len(parents), dtype=torch.bool, device=parents.device)
        self._seen = torch.cat([self._seen[parents], itself], -1)
        mask = additive_mask(self._seen, self._length, self._weight)
        logits = self._logits(tokens, torch.full_like(tokens, self._length + depth), mask, parents)
        self._cache.length += len(tokens)
        return logits

    @abstractmethod
    def _logits(self, tokens: Tensor, positions: Tensor, mask: Tensor, parents: Tensor | None) -> Tensor:
        """Run a pass over tokens (n,) at positions (n,), which appends its rows to ``_cache``.

        ``mask`` (1, 1, n, all rows so far) is additive; ``parents`` (n,) are the tokens' rows in the pass before, None
        in a first pass. Returns logits (n, vocabulary) float32; of a first pass only the last row's.
        """


class FeatureDrafter(PathDrafter):
    """A path drafter that combines the target's features of a position with the embedding of the *next* token.

    Such a row predicts the token after that one. At positions that the target has not read, the parent row's output
    replaces features. The last observed position's row needs the root's embedding, so each draft runs it anew.
    """

    # the first observed token's embedding is in the last cached row, or it is the text's first token and needs no row
    first_unread = 1

    def __init__(self, embedding: nn.Module, weight: Tensor, beam: BeamShape, columns: Tensor | slice) -> None:
        self.embedding, self._columns = embedding, columns
        super().__init__(weight, beam)

    def begin(self, rows: int) -> None:
        super().begin(rows)
        self._features: list[Tensor] = []
        self._states = self._weight.new_empty(0)  # outputs of the pass before

    @in_inference_mode
    def observe(self, token_ids: Integers, features: Tensor) -> None:
        super().observe(token_ids, features)
        self._features.append(features[:, self._columns])

    def _logits(self, tokens: Tensor, positions: Tensor, mask: Tensor, parents: Tensor | None) -> Tensor:
        if parents is None:
            features = torch.cat(self._features)
            self._features, states = [features[-1:]], self._fuse(features)
        else:
            states = self._states[parents]
        states = self._run_layer(states, self.embedding(tokens), positions, mask)
        self._states = states[-1:] if parents is None else states
        return self._predict(self._states)

    @abstractmethod
    def _fuse(self, features: Tensor) -> Tensor:
        """Project the target's features (rows, taps × hidden size) to states (rows, hidden size)."""

    @abstractmethod
    def _run_layer(self, states: Tensor, embedded: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Run the drafter's layer on states and embedded tokens (rows, hidden size each): (rows, hidden size)."""

    @abstractmethod
    def _predict(self, states: Tensor) -> Tensor:
        """Return logits (rows, vocabulary) float32 of the layer's outputs."""


class BeamLevel(NamedTuple):
    """One depth of a lattice on the device, all (rows, k)."""

    tokens: Tensor
    logprobs: Tensor
    follow: Tensor


def lattice_of(levels: list[BeamLevel], width: int) -> Lattice:
    """Copy levels of up to ``width`` rows to the host as one lattice. Row ``width`` is empty."""
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
