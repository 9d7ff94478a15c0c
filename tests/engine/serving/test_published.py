"""Published block-diffusion checkpoints, loaded as a person would, against a reference written from the equations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import silu

from engine.decoding.loop import decode
from engine.decoding.methods import METHODS
from engine.decoding.outcome import outcome
from engine.drafters.dflash.drafter import DFlashDrafter
from engine.records import Request, Sampling
from engine.serving.rigs import Rig, load_rig
from tests.engine.published import (
    DFLASH,
    SIZES,
    TARGETS,
    write_dflash,
    write_short,
    write_short_dflash,
    write_target,
)

STEPS = (5, 1, 3)  # committed positions a round, so that the cache holds what several rounds left


@pytest.fixture(scope="module", params=list(DFLASH))
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, Rig]]:
    folder = tmp_path_factory.mktemp("published")
    published = DFLASH[request.param]
    target = write_target(folder / published.target, TARGETS[published.target])
    drafter = write_dflash(folder / request.param, published)
    yield request.param, drafter, load_rig(f"{target}::{drafter}", "float32")


def normed(states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return weight * states / torch.sqrt(states.pow(2).mean(-1, keepdim=True) + epsilon)


def frequencies(target: dict[str, Any], size: int) -> Tensor:
    """Of the rotary embedding, in radians a position: plain, or slowed down as Llama 3.1 describes it."""
    half = size // 2
    plain: Tensor = target["rope_theta"] ** (-torch.arange(half).double() / half)
    scaling = target["rope_scaling"]
    if scaling is None:
        return plain
    found = []
    for frequency in plain.tolist():
        turns = scaling["original_max_position_embeddings"] * frequency / (2 * math.pi)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        share = min(1.0, max(0.0, (turns - low) / (high - low)))
        found.append(frequency * (share + (1 - share) / scaling["factor"]))
    return torch.tensor(found, dtype=torch.double)


def turned(states: Tensor, positions: Tensor, speeds: Tensor) -> Tensor:
    """States (rows, heads, size): pairs (i, i + size / 2) turn by position × speed."""
    angles = (positions[:, None].double() * speeds).float()[:, None]
    first, second = states.chunk(2, -1)
    return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)


def reference(folder: Path, name: str, features: Tensor, block: Tensor, size: int = SIZES["head_dim"]) -> Tensor:
    """Hidden states of an embedded block behind the features, from the tensors on disk, without a cache."""
    weights = {key: value.float() for key, value in load_file(folder / "model.safetensors").items()}
    target = TARGETS[DFLASH[name].target]
    epsilon, speeds = target["rms_norm_eps"], frequencies(target, size)
    fused = normed(features @ weights["fc.weight"].T, weights["hidden_norm.weight"], epsilon)
    before, here = torch.arange(len(features)), len(features) + torch.arange(len(block))
    hidden = block
    for layer in range(DFLASH[name].layers):
        part = {key.removeprefix(f"layers.{layer}.").removesuffix(".weight"): value for key, value in weights.items()
                if key.startswith(f"layers.{layer}.")}
        rows = normed(hidden, part["input_layernorm"], epsilon)
        sources = torch.cat([fused, rows])
        queries, keys, values = (
            (states @ part[f"self_attn.{each}_proj"].T).unflatten(-1, (-1, size))
            for states, each in ((rows, "q"), (sources, "k"), (sources, "v")))
        queries = turned(normed(queries, part["self_attn.q_norm"], epsilon), here, speeds)
        keys = turned(normed(keys, part["self_attn.k_norm"], epsilon), torch.cat([before, here]), speeds)
        shared = queries.shape[1] // keys.shape[1]
        mixed = [(queries[:, head] @ keys[:, head // shared].T / size**0.5).softmax(-1) @ values[:, head // shared]
                 for head in range(queries.shape[1])]
        hidden = hidden + torch.cat(mixed, -1) @ part["self_attn.o_proj"].T
        rows = normed(hidden, part["post_attention_layernorm"], epsilon)
        inner = silu(rows @ part["mlp.gate_proj"].T) * (rows @ part["mlp.up_proj"].T)
        hidden = hidden + inner @ part["mlp.down_proj"].T
    return normed(hidden, weights["norm.weight"], epsilon)


def test_the_drafter_equals_the_reference_at_every_position_cached_or_not(opened: tuple[str, Path, Rig]) -> None:
    name, folder, rig = opened
    published, drafter = DFLASH[name], rig.drafters["drafter"]
    assert isinstance(drafter, DFlashDrafter)
    assert (drafter.block, drafter.mask_id, rig.target.taps) == (published.block, published.mask_id, published.taps)
    features = torch.randn(sum(STEPS), len(published.taps) * SIZES["hidden_size"],
                           generator=torch.Generator().manual_seed(2))
    for steps in ((sum(STEPS),), STEPS):
        drafter.begin(64)
        done = 0
        for step in steps:
            drafter.observe(np.arange(step, dtype=np.int32), features[done:done + step])
            drafter.draft(3, 4)  # what a round leaves behind must not reach the next
            done += step
        lattice = drafter.draft(7, 50)
        assert lattice.depth == published.block - 1
        with torch.no_grad():
            tokens = torch.tensor([7] + [published.mask_id] * (published.block - 1))
            hidden = reference(folder, name, features, rig.target.embedding(tokens))
            said = rig.target.head(hidden[1:]).log_softmax(-1)
        asked = said.gather(-1, torch.from_numpy(lattice.tokens[:, 0]).long()).numpy()
        np.testing.assert_allclose(lattice.logprobs[:, 0], asked, atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(lattice.logprobs[:, 0], said.topk(50).values.numpy(), atol=1e-5, rtol=1e-5)


def test_the_features_are_what_the_tapped_layers_put_out(opened: tuple[str, Path, Rig]) -> None:
    name, _, rig = opened
    prompt = list(range(40, 52))
    _, features = rig.target.prefill(prompt, 8, Sampling())
    rig.target.release()
    with torch.no_grad():
        states = rig.target.model(torch.tensor([prompt]), output_hidden_states=True, use_cache=False).hidden_states
    wanted = torch.cat([states[tap + 1][0] for tap in DFLASH[name].taps], -1)
    torch.testing.assert_close(features, wanted, atol=1e-4, rtol=1e-4)


def test_with_one_drafter_the_second_drafter_is_the_ngram_one(opened: tuple[str, Path, Rig]) -> None:
    name, _, rig = opened
    assert list(rig.drafters_for("joint")) == ["drafter", "ngram"]
    assert rig.revisions == {"target": DFLASH[name].target, "drafter": name}
    assert rig.notes == ("Thinking is off: a drafter of this rig was trained on answers without it.",)


@pytest.mark.parametrize("target", ["Qwen3-8B", "Llama-3.1-8B-Instruct", "Qwen3-Coder-30B-A3B-Instruct"])
def test_every_method_writes_the_autoregressive_text(target: str, tmp_path: Path) -> None:
    rig = load_rig(f"{write_short(tmp_path / 'target', target)}::{write_short_dflash(tmp_path / 'head', target)}",
                   "float32")
    prompt = tuple(range(40, 60))
    for sampling in (Sampling(), Sampling(1.0, 0, 0.95, 3)):
        wanted = outcome(decode(Request(prompt, method="autoregressive", budget=0, max_tokens=14,
                                        sampling=sampling), rig.target, [])).token_ids
        assert sampling.temperature == 0 or len(set(wanted)) > 6, "a text that repeats itself proves nothing"
        for method, row in METHODS.items():
            if row.drafter_count and row.lossless and (row.accept == "walk" or sampling.temperature == 0):
                drafters = list(rig.drafters_for(method).values())
                found = outcome(decode(Request(prompt, method=method, budget=12, max_tokens=14,
                                               sampling=sampling), rig.target, drafters)).token_ids
                assert found == wanted, (method, sampling)
