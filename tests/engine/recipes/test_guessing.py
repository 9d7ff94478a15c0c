"""The loss of guessing, and its derivative, against torch's own."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from engine.recipes.guessing import guess_loss


def test_loss_and_derivative_are_torchs() -> None:
    torch.manual_seed(0)
    states, embedding = torch.randn(6, 8, requires_grad=True), torch.randn(20, 8)
    labels, weights = np.array([[3, 5, 19], [0, 7, 3]]), np.array([[1, 0.5, 2], [0, 1, 0.25]], np.float32)
    loss = guess_loss(states, embedding, labels, weights)
    loss.backward()
    assert states.grad is not None
    found, states.grad = states.grad.clone(), None
    losses = cross_entropy(states @ embedding.T, torch.from_numpy(labels).flatten(), reduction="none")
    plain = (losses * torch.from_numpy(weights).flatten()).sum() / weights.sum()
    plain.backward()
    torch.testing.assert_close(loss, plain, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found, states.grad, atol=1e-5, rtol=1e-4)
