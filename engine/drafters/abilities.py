"""Abilities that a drafter may have besides drafting. Code that needs one asks for the ability, never for a kind."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch

from engine.decoding.plan import Drafter
from engine.drafters.known_text import ReadText
from engine.lab.replay import Proposals


@runtime_checkable
class BlockDrafter(Drafter, Protocol):
    """Drafts a block in one pass: from the embedded root and mask tokens, a distribution for each slot.

    ``block`` is the number of slots, ``mask_id`` the token in all but the first; ``embedding`` and ``head`` are the
    target's; ``model`` is the trained module.
    """

    block: int
    mask_id: int
    embedding: Any
    head: Any
    model: Any

    @property
    def device(self) -> torch.device:
        """The device of its weights."""


@runtime_checkable
class ReplayDrafter(Drafter, Protocol):
    """Proposes the same at a place whatever the budget, so a few passes give its proposals over a whole known text."""

    def proposals(self, text: ReadText, width: int) -> Proposals:
        """Its lattice at every anchor of the text, ``width`` tokens per row, as ``draft`` would return there."""
