"""The block-diffusion drafter against a reference written from its equations, without cache, module by module."""

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
    tokens, logprobs = torch.from_numpy(lattice.tokens[:, 0]).long(), torch.from_numpy(lattice.logprobs[:, 0])
    torch.testing.assert_close(logprobs, wanted.gather(1, tokens), atol=1e-5, rtol=1e-5)
    assert (logprobs.diff() <= 0).all() and tokens.sort().values.equal(torch.arange(wanted.shape[1]).expand_as(tokens))
