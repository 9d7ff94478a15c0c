"""The block-diffusion drafter against a reference written from its equations, without cache, module by module."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from engine.drafters.dflash.model import DFlashModel
from engine.drafters.dflash.positions import proposals
from engine.drafters.known_text import ReadText
from tests.engine.small import MASK_ID, small_drafter, small_drafter_model, small_target


def norm(states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return weight * states / torch.sqrt(states.pow(2).mean(-1, keepdim=True) + epsilon)


def turned(states: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Rotary embedding of (rows, heads, size): pairs (i, i + size / 2) turn by position × theta^(−2i / size)."""
    half = states.shape[-1] // 2
    angles = positions[:, None].float() * theta ** (-torch.arange(half).float() / half)
    cosines, sines = angles.cos()[:, None], angles.sin()[:, None]
    first, second = states[..., :half], states[..., half:]
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1)


def visible(query: int, key: int, window: int, causal: bool) -> bool:
    """Whether a slot at one position sees what lies at another, in a layer with this window, 0 for none."""
    if window == 0:
        return True
    return query - window < key and (not causal or key <= query)


def reference(model: DFlashModel, features: Tensor, block: Tensor, start: int,
              sight: Sequence[tuple[int, bool]]) -> Tensor:
    """The block's hidden states, one loop a head, attention written out; ``sight``: each layer's (window, causal)."""
    config, weights = model.config, dict(model.named_parameters())
    epsilon, size = config.rms_norm_eps, config.head_dim
    theta = config.rope_parameters["rope_theta"]
    fused = norm(features @ weights["fc.weight"].T, weights["hidden_norm.weight"], epsilon)
    before, here = torch.arange(start), start + torch.arange(len(block))
    hidden = block
    for number in range(config.num_hidden_layers):
        def part(name: str, number: int = number) -> Tensor:
            return weights[f"layers.{number}.{name}.weight"]
        normed = norm(hidden, part("input_layernorm"), epsilon)
        sources = torch.cat([fused, normed])
        queries = (normed @ part("self_attn.q_proj").T).unflatten(-1, (-1, size))
        keys = (sources @ part("self_attn.k_proj").T).unflatten(-1, (-1, size))
        queries, keys = norm(queries, part("self_attn.q_norm"), epsilon), norm(keys, part("self_attn.k_norm"), epsilon)
        values = (sources @ part("self_attn.v_proj").T).unflatten(-1, (-1, size))
        queries, keys = turned(queries, here, theta), turned(keys, torch.cat([before, here]), theta)
        group = queries.shape[1] // keys.shape[1]
        mixed = []
        hidden_places = torch.tensor([
            [not visible(query, key, *sight[number]) for key in range(start + len(block))]
            for query in here.tolist()])
        for head in range(queries.shape[1]):
            scores = queries[:, head] @ keys[:, head // group].T / size ** 0.5
            scores[hidden_places] = -torch.inf
            mixed.append(scores.softmax(-1) @ values[:, head // group])
        hidden = hidden + torch.cat(mixed, -1) @ part("self_attn.o_proj").T
        normed = norm(hidden, part("post_attention_layernorm"), epsilon)
        gate, up = normed @ part("mlp.gate_proj").T, normed @ part("mlp.up_proj").T
        hidden = hidden + (silu(gate) * up) @ part("mlp.down_proj").T
    return norm(hidden, weights["norm.weight"], epsilon)


LAYERS = [(0, None), (1, None), (4, None), (40, None), (4, False), (40, False)]


@pytest.mark.parametrize(("window", "causal"), LAYERS)
@pytest.mark.parametrize("steps", [[9], [4, 5], [1, 1, 1, 6]])
def test_the_drafter_equals_the_reference_whatever_the_cache_saw_before(
        steps: list[int], window: int, causal: bool | None) -> None:
    target, drafter = small_target(), small_drafter(small_target(), window=window, causal=causal)
    torch.manual_seed(5)
    features = torch.randn(sum(steps), drafter.model.fc.in_features)
    drafter.begin(64)
    done = 0
    for step in steps:
        drafter.observe(np.arange(step, dtype=np.int32), features[done:done + step])
        drafter.draft(3, 4)  # what a round leaves behind must not reach the next
        done += step
    lattice = drafter.draft(7, target.config.vocab_size)
    tokens = torch.tensor([7] + [MASK_ID] * (drafter.block - 1))
    with torch.no_grad():
        hidden = reference(drafter.model, features, drafter.embedding(tokens), done,
                           ((window, causal is not False), (0, causal is not False)))
        wanted = drafter.head(hidden[1:]).log_softmax(-1)
    found = torch.empty_like(wanted)
    found.scatter_(1, torch.from_numpy(lattice.tokens[:, 0]).long(), torch.from_numpy(lattice.logprobs[:, 0]))
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("window", "causal"), LAYERS)
def test_the_anchors_of_a_text_propose_what_the_drafter_does(window: int, causal: bool | None) -> None:
    drafter = small_drafter(small_target(), window=window, causal=causal)
    torch.manual_seed(6)
    text = ReadText(np.arange(3, 17, dtype=np.int32), torch.randn(14, drafter.model.fc.in_features), 5)
    for anchor, found in zip(text.anchors.tolist(), proposals(drafter, text, 9), strict=True):
        drafter.begin(20)
        drafter.observe(text.token_ids[:anchor], text.features[:anchor])
        wanted = drafter.draft(int(text.token_ids[anchor]), 9)
        np.testing.assert_allclose(found.logprobs, wanted.logprobs, atol=1e-5)
        np.testing.assert_array_equal(found.tokens, wanted.tokens)


def test_sliding_layers_without_positions_are_refused() -> None:
    model = small_drafter_model(window=4)
    rows = torch.zeros(1, 6, 48)
    with pytest.raises(ValueError, match="needs the positions"):
        model(rows, model.rotation(torch.arange(6)), torch.zeros(2, 2, 1, 2, 0, 16))


def test_the_lattice_is_normalised_before_the_cut_and_sorted() -> None:
    drafter = small_drafter(small_target())
    drafter.begin(16)
    drafter.observe(np.arange(3, dtype=np.int32), torch.randn(3, drafter.model.fc.in_features))
    whole, cut = drafter.draft(7, 97), drafter.draft(7, 5)
    assert cut.tokens.shape == (drafter.block - 1, 1, 5) and cut.tokens.dtype == np.int32
    np.testing.assert_array_equal(cut.logprobs, whole.logprobs[..., :5])
    np.testing.assert_allclose(np.exp(whole.logprobs).sum(-1), 1, atol=1e-5)
    assert (np.diff(cut.logprobs, axis=-1) <= 0).all()


def test_the_tensor_names_are_the_published_ones() -> None:
    names = set(small_drafter_model().state_dict())
    assert {"fc.weight", "hidden_norm.weight", "norm.weight", "layers.0.self_attn.q_proj.weight",
            "layers.0.self_attn.k_norm.weight", "layers.1.mlp.down_proj.weight",
            "layers.1.post_attention_layernorm.weight"} <= names
    assert not any("embed" in name or "lm_head" in name for name in names)
