"""The loss of guessing, and its derivative, against torch's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from engine.training.guessing import Distributions, Guesses, guess_loss


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("some", [False, True])
def test_loss_and_derivative_are_torchs(share: float, some: bool) -> None:
    torch.manual_seed(0)
    states, embedding = torch.randn(6, 8, requires_grad=True), torch.randn(20, 8)
    labels, weights = np.array([3, 5, 19, 0, 7, 3]), np.array([1, 0.5, 2, 0, 1, 0.25], np.float32)
    likely = np.array([[3, 4], [5, 6], [1, 19], [0, 1], [7, 8], [9, 3]])
    logprobs = np.log(np.array([[0.6, 0.4], [0.9, 0.1], [0.5, 0.5], [1, 1e-9], [0.7, 0.3], [0.25, 0.75]], np.float32))
    choices = torch.tensor([3, 4, 5, 6, 1, 0, 7, 8, 9]) if some else None  # 19 cannot be chosen: it counts nothing
    loss = guess_loss(states, embedding, Guesses(labels, weights, Distributions(likely, logprobs, share), choices))
    loss.backward()
    assert states.grad is not None
    found, states.grad = states.grad.clone(), None
    logits = states @ embedding.T
    if choices is not None:
        logits = logits.masked_fill(~torch.isin(torch.arange(20), choices), -torch.inf)
        weights = weights * (labels != 19)
    wanted = torch.zeros(6, 20)
    for row in range(6):
        wanted[row, labels[row]] += 1 - share
        wanted[row, likely[row]] += share * torch.from_numpy(np.exp(logprobs[row]))
    kept = np.flatnonzero(weights)
    each = cross_entropy(logits[kept], wanted[kept], reduction="none") if choices is None else -(
        logits[kept].log_softmax(-1).clamp_min(-99) * wanted[kept]).sum(-1)
    plain = (each * torch.from_numpy(weights[kept])).sum() / weights.sum()
    plain.backward()
    torch.testing.assert_close(loss, plain, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found, states.grad, atol=1e-5, rtol=1e-4)


def test_labels_alone() -> None:
    states, embedding = torch.randn(4, 8), torch.randn(20, 8)
    labels = np.array([1, 2, 3, 4])
    loss = guess_loss(states, embedding, Guesses(labels, np.ones(4, np.float32)))
    torch.testing.assert_close(loss, cross_entropy(states @ embedding.T, torch.from_numpy(labels)))
