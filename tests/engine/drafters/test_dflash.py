"""The block-diffusion drafter against a reference written from its equations, without cache, module by module."""

import numpy as np
import pytest
import torch

from tests.engine.drafters.dflash_reference import plain_speeds, reference
from tests.engine.drafters.test_autoregressive import read
from tests.engine.small import MASK_ID, small_drafter, small_target

LAYERS = [(0, None), (1, None), (4, None), (40, None), (1, False), (2, False), (4, False), (40, False)]


@pytest.mark.parametrize(("window", "causal"), LAYERS)
@pytest.mark.parametrize("steps", [[9], [4, 5], [1, 1, 1, 6]])
def test_the_drafter_equals_the_reference_whatever_the_cache_saw_before(
        steps: list[int], window: int, causal: bool | None) -> None:
    target, drafter = small_target(), small_drafter(small_target(), window=window, causal=causal)
    torch.manual_seed(5)
    features = torch.randn(sum(steps), drafter.model.fc.in_features)
    lattice = read(drafter, range(sum(steps)), steps, features, target.config.vocab_size)
    tokens = torch.tensor([7] + [MASK_ID] * (drafter.block - 1))
    with torch.no_grad():
        config = drafter.model.config
        speeds = plain_speeds(config.rope_parameters["rope_theta"], config.head_dim)
        hidden = reference(dict(drafter.model.named_parameters()), features, drafter.embedding(tokens), speeds,
                           config.rms_norm_eps, [(window, causal is not False), (0, causal is not False)])
        wanted = drafter.head(hidden[1:]).log_softmax(-1)
    logprobs = torch.empty_like(wanted)
    logprobs.scatter_(1, torch.from_numpy(lattice.tokens[:, 0]).long(), torch.from_numpy(lattice.logprobs[:, 0]))
    torch.testing.assert_close(logprobs, wanted, atol=1e-5, rtol=1e-5)


def test_the_lattice_is_normalised_before_the_cut_and_sorted() -> None:
    drafter = small_drafter(small_target())
    drafter.begin(16)
    drafter.observe(np.arange(3, dtype=np.int32), torch.randn(3, drafter.model.fc.in_features))
    whole, cut = drafter.draft(7, 97), drafter.draft(7, 5)
    assert cut.tokens.shape == (drafter.block - 1, 1, 5) and cut.tokens.dtype == np.int32
    np.testing.assert_array_equal(cut.logprobs, whole.logprobs[..., :5])
    np.testing.assert_allclose(np.exp(whole.logprobs).sum(-1), 1, atol=1e-5)
    assert (np.diff(cut.logprobs, axis=-1) <= 0).all()
