"""Temperature, top-k, top-p and the draws."""

import numpy as np
import pytest
import torch

from engine.decoding.plan import position_draws
from engine.models import sampling
from engine.models.sampling import (
    GreedyChoices,
    choices,
    describe,
    draw_tokens,
    processed_logprobs,
    verification,
)
from engine.records import PackedTree, Sampling
from tests.engine.material import ancestors

LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.1]]))


@pytest.mark.parametrize(("sampling", "law"), [
    (Sampling(), (1, 0, 0, 0)), (Sampling(1.0, top_k=2), (2 / 3, 1 / 3, 0, 0)),
    (Sampling(1.0, top_p=0.6), (2 / 3, 1 / 3, 0, 0)),  # the token that crosses it stays
    (Sampling(1.0, top_p=0.3), (1, 0, 0, 0)), (Sampling(0.5), (50 / 69, 12.5 / 69, 4.5 / 69, 2 / 69))])
def test_temperature_sharpens_and_what_is_cut_is_renormalised(sampling: Sampling, law: tuple[float, ...]) -> None:
    torch.testing.assert_close(processed_logprobs(LOGITS, sampling).exp(), torch.tensor([law]).float())


def test_draws_at_the_ends_stay_inside_the_support() -> None:
    weights = torch.tensor([[0.0, 0.3, 0.7, 0.0]] * 3)
    assert draw_tokens(weights, torch.tensor([0.0, 0.29, 1.0])).tolist() == [1, 1, 2]


def test_draws_follow_the_distribution() -> None:
    draws = position_draws(7, 20_000)
    tokens, _ = choices(LOGITS.expand(20_000, -1), Sampling(1.0), draws)
    shares = np.bincount(tokens.numpy(), minlength=4) / 20_000
    np.testing.assert_allclose(shares, [0.5, 0.25, 0.15, 0.1], atol=0.015)  # 4 standard errors


def test_a_longer_text_has_the_same_draws_at_its_beginning() -> None:
    np.testing.assert_array_equal(position_draws(3, 10), position_draws(3, 1000)[:10])
    assert not np.array_equal(position_draws(3, 10), position_draws(4, 10))


@pytest.mark.parametrize("logits_per_batch", [2**17, 100, 1])
def test_the_host_says_of_greedy_rows_what_the_device_does(logits_per_batch: int,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "LOGITS_PER_BATCH", logits_per_batch)  # all rows, two at a time, each alone
    generator = torch.Generator().manual_seed(5)
    logits = 4 * torch.randn(9, 50, generator=generator)
    logits[3] = 0  # all alike
    logits[4, 7] = 300  # certain: nothing else has mass in float32
    before = logits.clone()
    parents = np.asarray([0, 0, 0, 1, 3, 3, 2, 6, 7], np.int32)
    tokens = torch.randint(50, (9,), generator=generator).int().numpy()
    tokens[1] = int(logits[0].argmax())
    found = verification(logits, Sampling(), np.zeros(0), PackedTree(tokens, parents, parents, ancestors(parents)))
    choice, _ = choices(logits, Sampling(), np.zeros(9))
    law = processed_logprobs(logits, Sampling())  # with which it is computed as above temperature 0
    expected = describe(logits, choice, law, tokens, parents)
    assert found.choice.tolist() == expected.choice.tolist()
    assert found.gap[3] == 0 and found.gap[4] > 280
    for name in ("logprobs", "entropy", "gap", "offered", "processed"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=2e-5, err_msg=name)
        assert getattr(found, name).dtype == np.float32
    torch.testing.assert_close(logits, before, atol=0, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_node_that_is_asked_for_alone_says_what_all_say(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(7)
    logits = torch.randn(12, 40, generator=generator).to(dtype)
    logits[1] = -logits[1].abs() - 1  # nothing above 0: the bits are ordered the other way
    logits[2] = 0
    logits[3, 5:9] = 6  # equals: the first
    logits[4], logits[4, 3], logits[4, 9] = -2, -0.0, 0.0
    tokens = np.zeros(12, np.int32)
    said = GreedyChoices(logits, tokens, tokens)
    wanted = logits.float().numpy().argmax(-1).tolist()
    assert [said.at(node) for node in range(12)] == wanted == said.choice().tolist()
    assert wanted[2:5] == [0, 5, 3]
    found = verification(logits, Sampling(), np.zeros(0), PackedTree(tokens, tokens, tokens, ancestors(tokens)))
    assert found.at(7) == wanted[7] and set(vars(found)) == {"source", "at"}, "one row alone was looked at"
    assert found.choice.tolist() == wanted and set(vars(found)) == {"source", "at", "choice"}
    assert found.entropy.shape == (12,) and "source" not in vars(found)
    assert found.at(7) == wanted[7]
