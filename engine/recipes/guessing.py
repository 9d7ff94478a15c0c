"""The loss of guessing tokens under the target's output head."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

LEAST_MASS = 1e-3  # the least sum of weights to divide by


def guess_loss(states: Tensor, embedding: Tensor, labels: NDArray[np.int64], weights: NDArray[np.float32]) -> Tensor:
    """Weighted mean cross entropy in nats, () float32; states (labels, hidden size), embedding (vocabulary, hidden
    size), labels and weights of any one shape."""
    shares = torch.from_numpy(weights).to(states.device).flatten()
    loss: Tensor = CrossEntropies.apply(  # type: ignore[no-untyped-call]  # torch's
        nn.functional.linear(states, embedding), torch.from_numpy(labels).to(states.device).flatten()[:, None],
        shares / shares.sum().clamp_min(LEAST_MASS))
    return loss


class CrossEntropies(torch.autograd.Function):
    """Σ weight × cross entropy of logits (n, vocabulary) with labels (n, 1). Its derivative is made in the forward
    pass, in one tensor: torch's own takes four of that size, and a third of a step."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The weighted sum, () float32."""
        whole = logits.float()
        norms = whole.logsumexp(-1)
        losses = norms - whole.gather(-1, labels)[:, 0]
        slope = whole.sub_(norms[:, None]).exp_() if whole is not logits else (whole - norms[:, None]).exp_()
        slope.scatter_add_(1, labels, slope.new_full(labels.shape, -1.0)).mul_(weights[:, None])
        ctx.save_for_backward(slope.to(logits.dtype))
        return (losses * weights).sum()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the logits, scaled by the incoming one; labels and weights have none."""
        (slope,) = ctx.saved_tensors
        return (slope * given[0], None, None)
