"""Temperature, top-k, top-p and the draws."""

from __future__ import annotations

import numpy as np
import torch

from engine.draws import position_draws
from engine.records import Sampling
from engine.runtime.sampling import chosen, drawn, processed

LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.1]]))


def test_temperature_zero_puts_all_mass_on_the_argmax():
    assert processed(LOGITS, Sampling()).exp().tolist() == [[1, 0, 0, 0]]


def test_top_k_keeps_k_and_renormalises():
    found = processed(LOGITS, Sampling(1.0, top_k=2)).exp()
    torch.testing.assert_close(found, torch.tensor([[2 / 3, 1 / 3, 0, 0]]))


def test_top_p_keeps_the_token_that_crosses_it():
    torch.testing.assert_close(
        processed(LOGITS, Sampling(1.0, top_p=0.6)).exp(), torch.tensor([[2 / 3, 1 / 3, 0, 0]]))
    torch.testing.assert_close(processed(LOGITS, Sampling(1.0, top_p=0.3)).exp(), torch.tensor([[1.0, 0, 0, 0]]))


def test_temperature_sharpens():
    found = processed(LOGITS, Sampling(0.5)).exp()
    torch.testing.assert_close(found, LOGITS.exp() ** 2 / (LOGITS.exp() ** 2).sum())


def test_draws_at_the_ends_stay_inside_the_support():
    weights = torch.tensor([[0.0, 0.3, 0.7, 0.0]] * 3)
    assert drawn(weights, torch.tensor([0.0, 0.29, 1.0])).tolist() == [1, 1, 2]


def test_draws_follow_the_distribution():
    draws = position_draws(7, 20_000)
    tokens = chosen(LOGITS.expand(20_000, -1), Sampling(1.0), draws)
    shares = np.bincount(tokens.numpy(), minlength=4) / 20_000
    np.testing.assert_allclose(shares, [0.5, 0.25, 0.15, 0.1], atol=0.015)  # 4 standard errors


def test_a_longer_text_has_the_same_draws_at_its_beginning():
    np.testing.assert_array_equal(position_draws(3, 10), position_draws(3, 1000)[:10])
    assert not np.array_equal(position_draws(3, 10), position_draws(4, 10))
