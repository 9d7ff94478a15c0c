"""The optimisers of a training run and their rates."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn


class Rates(Protocol):
    """The fields of a recipe, a target's or a drafter's, that the optimisers need."""

    @property
    def matrix_rate(self) -> float:
        """Muon's rate, for the matrices."""

    @property
    def other_rate(self) -> float:
        """AdamW's rate, for the embedding and the norms."""

    @property
    def weight_decay(self) -> float:
        """The weight decay of the matrices."""


def optimizers(model: nn.Module, recipe: Rates) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for the embedding and the norms."""
    matrices = [value for name, value in model.named_parameters() if value.ndim == 2 and "embed" not in name]
    others = [value for name, value in model.named_parameters() if value.ndim != 2 or "embed" in name]
    return [
        torch.optim.Muon(matrices, lr=recipe.matrix_rate, weight_decay=recipe.weight_decay,
                         adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=recipe.other_rate, betas=(0.9, 0.98), weight_decay=0.0)]


def set_rates(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Set every group's rate to a share of its initial rate."""
    for group in optimizer.param_groups:
        group.setdefault("full_lr", group["lr"])
        group["lr"] = group["full_lr"] * share
