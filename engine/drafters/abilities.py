"""Abilities that a drafter may have besides drafting. Code that needs one asks for the ability, never for a kind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from engine.decoding.protocols import Drafter
from engine.records import Integers, Lattice, Proposals


@dataclass(frozen=True, eq=False)
class ReadText:
    """Prompt and text as the target read them: token_ids (all,) int32, features (all, taps × hidden size). Anchors are
    the text's positions from ``start`` on, ``every`` so many."""

    token_ids: Integers
    features: Tensor
    start: int
    every: int = 1

    @property
    def anchors(self) -> Integers:
        """The anchors' positions, (anchors,) int32."""
        return np.arange(self.start, len(self.token_ids), self.every, dtype=np.int32)


def read_text(prompt_ids: Sequence[int], token_ids: Sequence[int], features: Sequence[Tensor]) -> ReadText:
    """The features that ``lab.replay.reread`` returns in pieces, as one text."""
    ids = np.asarray([*prompt_ids, *token_ids], np.int32)
    return ReadText(ids, torch.cat(list(features)), len(prompt_ids))


@runtime_checkable
class ReplayDrafter(Drafter, Protocol):
    """Proposes the same whatever the budget, so a few passes give its proposals over a whole known text."""

    def proposals(self, text: ReadText, width: int) -> Proposals:
        """Its lattice at every anchor of the text, ``width`` tokens per row, as ``draft`` would return there."""


@dataclass(frozen=True)
class BlockVariant:
    """How a block is laid out and read: the token in all slots but the first, and whether it is in the first instead of
    the root; the rotation for positions; and the first of the slots whose hidden states propose the next tokens."""

    mask_id: int
    rotation: Callable[[Tensor], tuple[Tensor, Tensor]]
    first_slot: int
    masked_root: bool = False

    @classmethod
    def of(cls, drafter: "BlockDrafter") -> Self:
        """The drafter's own."""
        return cls(drafter.mask_id, drafter.model.rotation, drafter.model.first_slot)


@runtime_checkable
class BlockDrafter(Drafter, Protocol):
    """Drafts a block in one pass: from the embedded root and mask tokens, a distribution for each slot.

    ``block`` is the number of slots, ``mask_id`` the token in all but the first; ``model`` is the trained module.
    """

    block: int
    mask_id: int
    model: Any

    def embedded(self, tokens: Tensor) -> Tensor:
        """Embed the tokens (…,) of a block, (…, hidden size)."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the marginal logits (…, vocabulary) of normed hidden states (…, hidden size)."""

    def lattices(self, hidden: Tensor, roots: Tensor, width: int) -> list[Lattice]:
        """A lattice for each block, by hidden states (blocks, depth, hidden size) before the last norm and roots
        (blocks,)."""

    def proposals(self, text: ReadText, width: int, variant: BlockVariant | None = None) -> Proposals:
        """Its lattice at every anchor of the text, ``width`` tokens per row; without a ``variant`` as ``draft`` would
        return there."""

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
