"""What a drafter may be able to do besides drafting. Code that needs an ability asks for it, never for a kind."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch

from engine.decoding.plan import Drafter
from engine.drafters.known_text import ReadText
from engine.lab.replay import Proposals


@runtime_checkable
class BlockDrafter(Drafter, Protocol):
    """Drafts a block in one pass: the embedded root and mask tokens in, a distribution for each slot out.

    ``block`` is the number of slots, ``mask_id`` the token that stands in all but the first, ``embedding`` and
    ``head`` are the target's, ``model`` is what was trained; ``layers``, ``norm`` and ``rotations`` are its parts as
    they run.
    """

    block: int
    mask_id: int
    embedding: Any
    head: Any
    model: Any
    layers: Any
    norm: Any
    rotations: Any

    def context_of(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of every layer for features (n, taps × hidden size), before keys are rotated."""

    @property
    def device(self) -> torch.device:
        """Where its weights lie."""


@runtime_checkable
class ReplayDrafter(Drafter, Protocol):
    """Proposes the same at a place whatever the budget, so a few passes give its proposals for a whole known text."""

    def proposals(self, text: ReadText, width: int) -> Proposals:
        """Its lattice at every anchor of the text, ``width`` tokens a row; what ``draft`` would give there."""
