"""Grows the proposals of a drafter that sees its own path: one pass per depth, which expands the best nodes of each.

The result is a ``Lattice`` with one row per expanded node, so the loop asks for it once and every builder can read it.
Nodes are expanded as in EAGLE-2, on which papers 000 and 001 build: the best of a depth by cumulative probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from engine.models.layers import additive
from engine.records import Lattice


@dataclass(frozen=True)
class Reach:
    """How far a draft reaches: ``depth`` passes, and at each depth ``width`` expanded nodes with ``width`` children
    each."""

    depth: int
    width: int

    def within(self, nodes: int, positions: int) -> Reach:
        """The part that a budget of ``nodes`` and the ``positions`` left in the drafter's context can use."""
        return Reach(max(0, min(self.depth, nodes, positions)), min(self.width, nodes))

    @property
    def rows(self) -> int:
        """The most rows that a draft writes after the committed ones: the root and the expanded nodes."""
        return 1 + self.depth * self.width


PUBLISHED = Reach(depth=6, width=10)


class PathModel(Protocol):
    """A model that predicts what follows a node, and remembers the nodes that it was given before."""

    def after_root(self, root: int) -> Tensor:
        """Logits (1, vocabulary) float32 after the committed tokens and the root."""

    def after(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """Logits (rows, vocabulary) float32 after nodes of the next depth: their tokens (rows,) int64, and the rows
        of the last call that are their parents (rows,) int64."""


class BeamLevel(NamedTuple):
    """One depth on the device, all (rows, k): tokens, logprobs, and the row of the next depth that a cell leads to."""

    tokens: Tensor
    logprobs: Tensor
    follow: Tensor


def grow(model: PathModel, root: int, reach: Reach) -> Lattice:
    """The lattice of ``reach``: (depth, width + 1, width). Its last row belongs to no node: cells that are not expanded
    lead there, and everything after it has probability 0. Logprobs are those of the whole vocabulary."""
    if reach.depth == 0:
        return nothing()
    levels: list[BeamLevel] = []
    logits = model.after_root(root)
    scores = logits.new_zeros(1)
    for depth in range(reach.depth):
        top = logits.topk(min(reach.width, logits.shape[-1]), -1)
        logprobs = (top.values - logits.logsumexp(-1, keepdim=True)).clamp_(max=0.0)
        totals = (scores[:, None] + logprobs).flatten()
        best = totals.topk(min(reach.width, len(totals)))
        follow = torch.full_like(totals, reach.width, dtype=torch.long)
        follow[best.indices] = torch.arange(len(best.indices), device=follow.device)
        levels.append(BeamLevel(top.indices, logprobs, follow.view_as(logprobs)))
        if depth + 1 < reach.depth:
            scores = best.values
            logits = model.after(top.indices.flatten()[best.indices], best.indices // logprobs.shape[-1])
    return on_host(levels, reach.width)


def nothing() -> Lattice:
    """The empty lattice, of depth 0, for a drafter that proposes nothing."""
    zero = np.zeros((0, 1, 1), np.int32)
    return Lattice(zero, np.zeros((0, 1, 1), np.float32), zero)


def on_host(levels: list[BeamLevel], width: int) -> Lattice:
    """Levels of up to ``width`` rows as one lattice on the host; what leads to row ``width`` leads nowhere."""
    shape = len(levels), width + 1, levels[0].tokens.shape[-1]
    tokens, follow = np.zeros(shape, np.int32), np.full(shape, width, np.int32)
    logprobs = np.full(shape, -np.inf, np.float32)
    for depth, level in enumerate(levels):
        rows = len(level.tokens)
        tokens[depth, :rows] = level.tokens.cpu().numpy()
        logprobs[depth, :rows] = level.logprobs.cpu().numpy()
        follow[depth, :rows] = level.follow.cpu().numpy()
    return Lattice(tokens, logprobs, follow)


class Ancestry:
    """Which rows each row of a growing tree sees: all committed ones, its ancestors and itself."""

    def __init__(self, committed: int, like: Tensor) -> None:
        self._committed, self._like = committed, like
        self._seen = torch.ones(1, 1, dtype=torch.bool, device=like.device)

    def mask(self, parents: Tensor) -> Tensor:
        """Additive mask (1, 1, rows, committed + all rows so far) of the next depth; ``parents`` as in ``after``."""
        itself = torch.eye(len(parents), dtype=torch.bool, device=parents.device)
        self._seen = torch.cat([self._seen[parents], itself], -1)
        return additive(self._seen, self._committed, self._like)
