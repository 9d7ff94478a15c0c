"""Temperature, top-k, top-p and the draws."""

import weakref

import numpy as np
import pytest
import torch

from engine.decoding.protocols import position_draws
from engine.errors import RequestError
from engine.models import sampling as module
from engine.models.rows import tree_rows
from engine.models.sampling import GreedyChoices, choices, draw_tokens, most_likely, processed_logprobs, verification
from engine.records import PackedTree, Sampling
from tests.engine.helpers import ancestors

LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.1]]))


@pytest.mark.parametrize(("sampling", "law"), [
    (Sampling(), (1, 0, 0, 0)), (Sampling(1.0, top_k=2), (2 / 3, 1 / 3, 0, 0)),
    (Sampling(1.0, top_p=0.6), (2 / 3, 1 / 3, 0, 0)),  # the token that crosses the limit stays
    (Sampling(1.0, top_p=0.3), (1, 0, 0, 0)), (Sampling(0.5), (50 / 69, 12.5 / 69, 4.5 / 69, 2 / 69))])
def test_temperature_sharpens_and_cuts_are_renormalised(sampling: Sampling, law: tuple[float, ...]) -> None:
    torch.testing.assert_close(processed_logprobs(LOGITS, sampling).exp(), torch.tensor([law]).float())


def test_the_most_likely_tokens_are_those_of_a_sort() -> None:
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    found, (values, tokens) = most_likely(logits, 5), logits.log_softmax(-1).topk(5)
    np.testing.assert_array_equal(found.tokens, tokens)
    np.testing.assert_allclose(found.logprobs, values, atol=1e-5)
    assert most_likely(logits[:, :2], 5).tokens.shape == (3, 2)


def test_draws_at_the_ends_stay_inside_the_support() -> None:
    weights = torch.tensor([[0.0, 0.3, 0.7, 0.0]] * 3)
    assert draw_tokens(weights, torch.tensor([0.0, 0.29, 1.0])).tolist() == [1, 1, 2]


def test_draws_follow_the_distribution() -> None:
    draws = position_draws(7, 20_000)
    tokens, _ = choices(LOGITS.expand(20_000, -1), Sampling(1.0), torch.from_numpy(draws))
    shares = np.bincount(tokens.numpy(), minlength=4) / 20_000
    np.testing.assert_allclose(shares, [0.5, 0.25, 0.15, 0.1], atol=0.015)  # 4 standard errors


def test_a_longer_text_begins_with_the_same_draws() -> None:
    np.testing.assert_array_equal(position_draws(3, 10), position_draws(3, 1000)[:10])
    assert not np.array_equal(position_draws(3, 10), position_draws(4, 10))


@pytest.mark.parametrize("logits_per_batch", [2**17, 100, 1])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9, 6, 0.95)], ids=["on the host", "on the device"])
def test_the_statistics_of_each_node_follow_its_logits(sampling: Sampling, logits_per_batch: int,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOGITS_PER_BATCH", logits_per_batch)  # all rows at once, two at a time, one at a time
    generator = torch.Generator().manual_seed(5)
    logits = 4 * torch.randn(9, 50, generator=generator)
    logits[3] = 0  # all equal
    logits[4, 7] = 300  # no other token has mass in float32
    before, draws = logits.clone(), position_draws(1, 9)
    parents = np.asarray([0, 0, 0, 1, 3, 3, 2, 6, 7], np.int32)
    tokens = torch.randint(50, (9,), generator=generator).int().numpy()
    tokens[1] = int(logits[0].argmax())
    packed = PackedTree(tokens, parents, parents, ancestors(parents))
    record = verification(logits, sampling, tree_rows(packed, draws, logits.device))
    laws, processed = logits.log_softmax(-1), processed_logprobs(logits, sampling)
    choice = logits.argmax(-1) if sampling == Sampling() else draw_tokens(processed.exp(), torch.from_numpy(draws))
    top = logits.topk(2, -1).values
    expected = {
        "logprobs": laws[range(9), choice], "entropy": torch.special.entr(laws.exp()).sum(-1),
        "gap": top[:, 0] - top[:, 1], "offered": laws[parents, tokens], "processed": processed[parents, tokens]}
    assert record.choice.tolist() == choice.tolist()
    for name, values in expected.items():
        if name in ("offered", "processed"):
            values[0] = 0  # the root was not drafted
        np.testing.assert_allclose(getattr(record, name), values, atol=2e-5, err_msg=name)
        assert getattr(record, name).dtype == np.float32
    torch.testing.assert_close(logits, before, atol=0, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_nodes_choice_is_the_same_alone_and_among_all(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(7)
    logits = torch.randn(12, 40, generator=generator).to(dtype)
    logits[1] = -logits[1].abs() - 1  # all below 0, where the order of bits is reversed
    logits[2] = 0
    logits[3, 5:9] = 6  # ties: the first one
    logits[4], logits[4, 3], logits[4, 9] = -2, -0.0, 0.0
    tokens = np.zeros(12, np.int32)
    choices_ = GreedyChoices(logits, tokens, tokens)
    wanted = logits.float().numpy().argmax(-1).tolist()
    assert [choices_.at(node) for node in range(12)] == wanted == choices_.choice.tolist()
    assert wanted[2:5] == [0, 5, 3]
    packed = PackedTree(tokens, tokens, tokens, ancestors(tokens))
    record = verification(logits, Sampling(), tree_rows(packed, np.zeros(0), logits.device))
    assert record.at(7) == wanted[7] and record.choice.tolist() == wanted
    kept = weakref.ref(logits)
    del logits, choices_
    assert kept() is not None and record.entropy.shape == (12,), "the statistics are computed when they are read"
    assert kept() is None and record.at(7) == wanted[7], "then the logits are dropped"


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0, 6, 0.9)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("value", [torch.nan, -torch.nan, torch.inf])
def test_nan_and_infinite_logits_give_no_choice(value: float, dtype: torch.dtype, sampling: Sampling) -> None:
    logits = torch.randn(2, 40, generator=torch.Generator().manual_seed(7)).to(dtype)
    rows = np.zeros(2, np.int32)
    packed = tree_rows(PackedTree(rows, rows, rows, ancestors(rows)), position_draws(1, 2), logits.device)
    logits[0, 3] = -torch.inf  # a token may be impossible
    verification(logits, sampling, packed)
    logits[0, 17] = value
    with pytest.raises(RequestError, match="nan|inf"):
        verification(logits, sampling, packed)
