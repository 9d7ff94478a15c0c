"""Published block-diffusion checkpoints, opened by name and compared with a reference written from the equations."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.drafters.dflash.drafter import DFlashDrafter
from engine.records import PromptRequest, Request, Sampling
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import trace_from_lines
from tests.engine.drafters.dflash_reference import plain_speeds, reference
from tests.engine.helpers import LOSSLESS, rig_text
from tests.engine.published import DFLASH, TARGETS, write_dflash, write_short, write_short_dflash, write_target

STEPS = (5, 1, 3)  # committed positions by round; the cache holds several rounds


@pytest.fixture(scope="module", params=list(DFLASH))
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Rig]:
    """Provide a drafter's name, its folder, and the rig of it and its target."""
    name, folder = request.param, tmp_path_factory.mktemp("published")
    target = write_target(folder / DFLASH[name].target, TARGETS[DFLASH[name].target])
    drafter = write_dflash(folder / name, DFLASH[name])
    return name, drafter, load_rig(f"{target}::{drafter}", "float32")


def frequencies(target: dict[str, Any], size: int) -> Tensor:
    """Return the rotary embedding's speeds, plain or scaled as in Llama 3.1."""
    plain = plain_speeds(target["rope_theta"], size)
    if not (scaling := target["rope_scaling"]):
        return plain
    turns = scaling["original_max_position_embeddings"] * plain / (2 * math.pi)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    share = ((turns - low) / (high - low)).clamp(0, 1)
    slowed: Tensor = plain * (share + (1 - share) / scaling["factor"])
    return slowed


def states_of(folder: Path, name: str, features: Tensor, block: Tensor, size: int) -> Tensor:
    """Return the hidden states of an embedded block after the features, from the tensors on disk."""
    weights = {key: value.float() for key, value in load_file(folder / "model.safetensors").items()}
    target = TARGETS[DFLASH[name].target]
    return reference(weights, features, block, frequencies(target, size), target["rms_norm_eps"],
                     [(0, True)] * DFLASH[name].layers)


def test_the_drafter_equals_the_reference_at_every_position_cached_or_not(opened: tuple[str, Path, Rig]) -> None:
    name, folder, rig = opened
    published, drafter = DFLASH[name], rig.drafters["drafter"]
    assert isinstance(drafter, DFlashDrafter)
    assert (drafter.block, drafter.mask_id, rig.target.taps) == (published.block, published.mask_id, published.taps)
    embedding, head = rig.target.embedding, rig.target.head
    config = drafter.model.config
    features = torch.randn(sum(STEPS), len(published.taps) * config.hidden_size,
                           generator=torch.Generator().manual_seed(2))
    for steps in ((sum(STEPS),), STEPS):
        drafter.begin(64)
        done = 0
        for step in steps:
            drafter.observe(np.arange(step, dtype=np.int32), features[done:done + step])
            drafter.draft(3, 4)  # an earlier draft must not affect the next
            done += step
        lattice = drafter.draft(7, 50)
        assert lattice.depth == published.block - 1
        with torch.no_grad():
            tokens = torch.tensor([7] + [published.mask_id] * (published.block - 1))
            hidden = states_of(folder, name, features, embedding(tokens), config.head_dim)
            law = head(hidden[1:]).log_softmax(-1)
        same = law.gather(-1, torch.from_numpy(lattice.tokens[:, 0]).long()).numpy()
        np.testing.assert_allclose(lattice.logprobs[:, 0], same, atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(lattice.logprobs[:, 0], law.topk(50).values.numpy(), atol=1e-5, rtol=1e-5)


def test_the_features_are_the_outputs_of_the_tapped_layers(opened: tuple[str, Path, Rig]) -> None:
    name, _, rig = opened
    prompt = list(range(40, 52))
    _, features = rig.target.prefill(prompt, 8, Sampling())
    rig.target.release()
    with torch.no_grad():
        states = rig.target.model(torch.tensor([prompt]), output_hidden_states=True, use_cache=False).hidden_states
    wanted = torch.cat([states[tap + 1][0] for tap in DFLASH[name].taps], -1)
    torch.testing.assert_close(features, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("target", ["Qwen3-8B", "Llama-3.1-8B-Instruct", "Qwen3-Coder-30B-A3B-Instruct"])
def test_a_rig_names_its_parts_and_every_method_writes_the_plain_text(target: str, tmp_path: Path) -> None:
    rig = load_rig(f"{write_short(tmp_path / 'target', target)}::{write_short_dflash(tmp_path / 'head', target)}",
                   "float32")
    assert list(rig.drafters_for("joint")) == ["drafter", "ngram"], "the second drafter is the n-gram one"
    assert {"expand", "routed"} <= set(rig.methods) and rig.card.revisions == {"target": "target", "drafter": "head"}
    trace = trace_from_lines(rig.run(PromptRequest("Hi", method="joint", budget=8, max_tokens=6,
                                         turns=(("user", "3 + 4?"), ("assistant", "7")))))
    assert trace.header.drafters == ("drafter", "ngram") and trace.header.drafter_kinds == ("dflash", "ngram")
    assert trace.header.revisions["drafter"] == "head"
    assert "Thinking" in trace.header.note
    asked = "".join(str(trace.header.pieces[token]) for token in trace.header.request.prompt_ids)
    assert "3 + 4?" in asked and asked.endswith("<think>\n\n</think>\n\n")
    prompt = tuple(range(40, 60))
    for sampling in (Sampling(), Sampling(1.0, 0, 0.95, 3)):
        request = Request(prompt, budget=12, max_tokens=14, sampling=sampling)
        text = rig_text(rig, request, () if sampling.temperature else set(LOSSLESS) - {"autoregressive"})
        assert sampling.temperature == 0 or len(set(text)) > 6, "a repeating text would prove nothing"
