"""The EAGLE-3 drafter, loaded from a folder as published, against its equations without a cache."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.records import Request
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from tests.engine.drafters import dflash_reference
from tests.engine.drafters.test_autoregressive import assert_rows_follow, read
from tests.engine.helpers import decode
from tests.engine.published import (
    SIZES,
    Published,
    dflash_shapes,
    refused,
    write_config,
    write_short,
    write_short_dflash,
    write_weights,
)

LLAMA = "Llama-3.1-8B-Instruct"
DRAFT, WHOLE = 200, 1536
LAYERS, TAPS = 8, (1, 3, 4)  # the inputs of layers 2, 8 / 2 and 8 − 3
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1,
    "draft_vocab_size": DRAFT, "eos_token_id": 2, "hidden_act": "silu", "initializer_range": 0.02,
    "max_position_embeddings": 2048, "mlp_bias": False, "model_type": "llama", "num_hidden_layers": 1,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "torch_dtype": "float16", "use_cache": True, "vocab_size": WHOLE, **SIZES}


def write_eagle3(folder: Path, taps: int = 3, **changes: Any) -> Path:
    """Write a random drafter; its layer is DFlash's without head norms, with inputs of twice the hidden size."""
    hidden = SIZES["hidden_size"]
    layer = {name.replace("layers.0", "midlayer"): shape for name, shape in dflash_shapes(
        Published("", (), 0, 0, 1)).items() if name.startswith("layers.0") and "_norm." not in name}
    layer |= {name: (shape[0], 2 * hidden) for name, shape in layer.items() if re.search("[qkv]_proj", name)}
    write_weights(write_config(folder, {**CONFIG, **changes}), {
        "fc.weight": (hidden, taps * hidden), "norm.weight": (hidden,), "lm_head.weight": (DRAFT, hidden),
        "midlayer.hidden_norm.weight": (hidden,), **layer})
    weights = load_file(folder / "model.safetensors")
    mapped = torch.from_numpy(np.sort(np.random.default_rng(5).choice(WHOLE, DRAFT, replace=False)))
    weights["d2t"] = mapped - torch.arange(DRAFT)
    weights["t2d"] = torch.zeros(WHOLE, dtype=torch.bool).index_fill(0, mapped, True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("eagle3")
    write_short(folder / "target", LLAMA, num_hidden_layers=LAYERS)
    write_eagle3(folder / "head")
    write_short_dflash(folder / "other", LLAMA, num_target_layers=LAYERS)
    return folder


@pytest.fixture(scope="module")
def rig(folders: Path) -> Rig:
    return load_rig(f"{folders / 'target'}::{folders / 'head'}", "float32")


normed = partial(dflash_reference.normed, epsilon=CONFIG["rms_norm_eps"])
SPEEDS = dflash_reference.plain_speeds(CONFIG["rope_theta"], SIZES["head_dim"])


def layer(weights: dict[str, Tensor], hidden: Tensor, embedded: Tensor) -> Tensor:
    """Return the layer's output at positions 0, 1, …; each row sees those before it."""
    part = {name.removeprefix("midlayer.").removesuffix(".weight"): value for name, value in weights.items()}
    both = torch.cat([normed(embedded, part["input_layernorm"]), normed(hidden, part["hidden_norm"])], -1)
    queries, keys, values = ((both @ part[f"self_attn.{name}_proj"].T).unflatten(-1, (-1, SIZES["head_dim"]))
                             for name in "qkv")
    positions = torch.arange(len(hidden))
    queries, keys = (dflash_reference.rotated_halves(states, positions, SPEEDS) for states in (queries, keys))
    later = torch.ones(len(hidden), len(hidden), dtype=torch.bool).triu(1)
    return dflash_reference.after_attention(
        part, hidden, dflash_reference.attended(queries, keys, values, later), CONFIG["rms_norm_eps"])


def reference(folder: Path, rig: Rig, features: Tensor, tokens: list[int], path: tuple[int, ...]) -> Tensor:
    """Return log probabilities over the target's vocabulary after the path; ``tokens`` are those after each feature's
    position. Rows without features take the output of the row before."""
    weights = load_file(folder / "model.safetensors")
    hidden, embedded = features @ weights["fc.weight"].T, rig.target.embedding(torch.tensor([*tokens, *path]))
    for _ in path:
        hidden = torch.cat([hidden, layer(weights, hidden, embedded[:len(hidden)])[-1:]])
    last = layer(weights, hidden, embedded)[-1]
    whole = torch.full((WHOLE,), -torch.inf)
    whole[weights["d2t"] + torch.arange(DRAFT)] = (
        normed(last, weights["norm.weight"]) @ weights["lm_head.weight"].T).log_softmax(-1)
    return whole


def test_neighbouring_pairs_rotate_if_the_config_asks_for_it(
        folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dflash_reference, "rotated_halves", dflash_reference.rotated_neighbours)
    head = write_eagle3(tmp_path / "head", rope_is_neox_style=False)
    test_every_row_equals_the_equations_after_that_path(
        folders, load_rig(f"{folders / 'target'}::{head}", "float32"), (4, 5))


def test_modelopts_options_for_the_supported_layer_are_accepted(folders: Path, rig: Rig, tmp_path: Path) -> None:
    head = write_eagle3(tmp_path / "head", max_anchors=512, norm_before_residual=False, eagle_config={
        "use_aux_hidden_state": True, "use_input_layernorm_in_first_layer": True, "use_last_layernorm": True,
        "use_mtp_layernorm": False, "next_layer_regular": True, "parallel_draft_step": 1})
    opened = load_rig(f"{folders / 'target'}::{head}", "float32")
    assert any("max_anchors" in note and "layernorm" not in note for note in opened.notes)
    assert opened.kinds == {"drafter": "eagle3", "ngram": "ngram"}
    test_every_row_equals_the_equations_after_that_path(folders, opened, (4, 5))


@pytest.mark.parametrize("steps", [(9,), (4, 5), (1, 1, 1, 6)])
def test_every_row_equals_the_equations_after_that_path(folders: Path, rig: Rig, steps: tuple[int, ...]) -> None:
    random = np.random.default_rng(3)
    text = random.integers(0, WHOLE, sum(steps)).tolist()
    features = torch.from_numpy(random.normal(size=(sum(steps), 3 * SIZES["hidden_size"])).astype(np.float32))
    lattice = read(rig.drafters["drafter"], text, steps, features)
    assert_rows_follow(lattice, partial(reference, folders / "head", rig, features, [*text[1:], 7]))


def test_the_published_layers_are_tapped_unless_the_config_names_others(
        folders: Path, rig: Rig, tmp_path: Path) -> None:
    assert rig.target.taps == TAPS
    named = write_eagle3(tmp_path / "named", 2, eagle_config={
        "eagle_aux_hidden_state_layer_ids": [0, 4], "use_aux_hidden_state": True})
    assert load_rig(f"{folders / 'target'}::{named}", "float32").target.taps == (0, 4)


def test_angles_are_not_rounded_with_the_weights(folders: Path) -> None:
    rig = load_rig(f"{folders / 'target'}::{folders / 'head'}::{folders / 'other'}", "bfloat16")
    positions = torch.tensor([0, 7, 900])
    drafters: list[Any] = [rig.drafters["drafter 1"], rig.drafters["drafter 2"]]
    for model in (drafter.model for drafter in drafters):
        assert model.fc.weight.dtype == torch.bfloat16
        loaded, afresh = (rotary(torch.zeros(1), positions[None])
                          for rotary in (model.rotary_emb, type(model.rotary_emb)(model.config)))
        torch.testing.assert_close(loaded, afresh, atol=1e-6, rtol=0)


def test_each_of_two_drafters_sees_only_its_own_taps(folders: Path, rig: Rig) -> None:
    both = load_rig(f"{folders / 'target'}::{folders / 'other'}::{folders / 'head'}", "float32")
    request = Request(tuple(range(40, 60)), method="expand", budget=12, max_tokens=8)
    alone, beside_another = (
        next(decode(request, opened.target, list(opened.drafters_for("expand").values()))).drafts[0]
        for opened in (rig, both))
    np.testing.assert_array_equal(alone.tokens, beside_another.tokens)
    np.testing.assert_allclose(alone.logprobs, beside_another.logprobs, atol=1e-5)


@pytest.mark.parametrize(("changes", "named"), [
    ({"num_hidden_layers": 2}, "num_hidden_layers = 2"), ({"target_hidden_size": 64}, "hidden size 64"),
    ({"norm_before_residual": True}, "norm_before_residual = True"), ({"vocab_size": 999}, "999"),
    ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 8]}}, "layers 1, 3, 8"),
    ({"eagle_config": {"parallel_draft_step": 3}}, "parallel_draft_step = 3"),
    ({"eagle_config": {"use_last_layernorm": False}}, "use_last_layernorm = false"),
    ({"eagle_config": {"use_input_layernorm_in_first_layer": False}}, "use_input_layernorm_in_first_layer = false"),
    ({"draft_vocab_size": "200"}, "draft_vocab_size '200'"), ({"draft_vocab_size": 100}, "(200,); (100,)")])
def test_drafters_with_unsupported_options_are_refused(
        folders: Path, tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    assert named in refused(f"{folders / 'target'}::{write_eagle3(tmp_path / 'head', **changes)}")


def test_a_map_that_leaves_the_vocabulary_is_refused(folders: Path, tmp_path: Path) -> None:
    drafter = write_eagle3(tmp_path / "head")
    weights = load_file(drafter / "model.safetensors")
    weights["d2t"][-1] += WHOLE
    save_file(weights, drafter / "model.safetensors")
    assert "d2t" in refused(f"{folders / 'target'}::{drafter}")
