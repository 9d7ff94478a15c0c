"""The loss of guessing tokens under the target's output head, over its whole vocabulary or over some of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

LEAST_MASS = 1e-3  # the least sum of weights, or of the target's distribution, to divide by


@dataclass(frozen=True, eq=False)
class Distributions:
    """The target's distribution at each label: its likeliest tokens (…, k) int64 and their log probabilities
    float32; ``share`` of the loss is the cross entropy with them, the rest that with the label."""

    likely: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    share: float


@dataclass(frozen=True, eq=False)
class Guesses:
    """What to guess: labels (…) int64 and weights (…) float32; the target's distributions, where known; and the tokens
    to choose from, int64, unless these are all."""

    labels: NDArray[np.int64]
    weights: NDArray[np.float32]
    distributions: Distributions | None = None
    choices: Tensor | None = None


def guess_loss(states: Tensor, embedding: Tensor, guesses: Guesses) -> Tensor:
    """Weighted cross entropy in nats; states (labels, hidden size), embedding (vocabulary, hidden size)."""
    place = states.device
    table = embedding if guesses.choices is None else embedding[guesses.choices]
    columns = columns_of(guesses.choices, embedding)
    labels = columns[torch.from_numpy(guesses.labels).to(place).flatten()]
    weights = torch.from_numpy(guesses.weights).to(place).flatten() * (labels >= 0)
    at, masses = labels[:, None], torch.ones_like(weights)[:, None]
    told = guesses.distributions
    if told is not None:
        likely = columns[torch.from_numpy(told.likely).to(place).flatten(0, -2)]
        shares = torch.from_numpy(told.logprobs).to(place).flatten(0, -2).exp() * (likely >= 0)
        shares = shares / shares.sum(-1, keepdim=True).clamp_min(LEAST_MASS)
        at, masses = torch.cat([at, likely], -1), torch.cat([masses * (1 - told.share), shares * told.share], -1)
    weights = weights / weights.sum().clamp_min(LEAST_MASS)
    loss: Tensor = CrossEntropies.apply(  # type: ignore[no-untyped-call]  # torch's
        nn.functional.linear(states, table), at.clamp_min(0), masses, weights)
    return loss


class CrossEntropies(torch.autograd.Function):
    """Σ weight × cross entropy of logits (n, choices) with distributions of a few tokens: their columns ``at`` and
    ``masses``, (n, few). Its derivative is softmax − mass, so it is made in the forward pass, in one tensor: torch's
    own takes four of that size, and a third of a step."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, at: Tensor, masses: Tensor, weights: Tensor) -> Tensor:
        """The weighted sum, () float32."""
        whole = logits.float()
        norms = whole.logsumexp(-1)
        losses = norms * masses.sum(-1) - (whole.gather(-1, at) * masses).sum(-1)
        slope = whole.sub_(norms[:, None]).exp_() if whole is not logits else (whole - norms[:, None]).exp_()
        slope.mul_(masses.sum(-1, keepdim=True)).scatter_add_(1, at, -masses).mul_(weights[:, None])
        ctx.save_for_backward(slope.to(logits.dtype))
        return (losses * weights).sum()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the logits, scaled by the incoming one; see the class."""
        (slope,) = ctx.saved_tensors
        return (slope * given[0], *[None] * 3)  # no gradient for what is not learned


def columns_of(choices: Tensor | None, embedding: Tensor) -> Tensor:
    """The column of each token's logit, (vocabulary,) int64; −1 where it has none."""
    count, place = embedding.shape[0], embedding.device
    if choices is None:
        return torch.arange(count, device=place)
    columns = torch.full((count,), -1, device=place)
    columns[choices] = torch.arange(len(choices), device=place)
    return columns
