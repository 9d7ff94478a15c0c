"""A GGUF file's metadata has the meaning that llama.cpp gives it, or the file is refused by the key's name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig, Phi3Config, Qwen3Config, Qwen3ForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

from engine.checkpoints.gguf import convert_gguf
from engine.checkpoints.gguf_header import GgufHeader, TensorPlace
from engine.checkpoints.gguf_keys import follow_metadata
from engine.checkpoints.loading import load_causal
from engine.errors import RigError
from engine.models.passes import longrope_switch_length
from tests.engine.checkpoints.test_gguf import CPU, SIZES, small_llama, write_gguf

Add = Callable[[gguf.GGUFWriter], object]
THETA = {"rope_theta": 10_000.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}


def with_keys(**values: Any) -> Add:
    """Return a function that adds keys of the architecture; two underscores stand for a dot."""
    def add(file: gguf.GGUFWriter) -> None:
        for name, value in values.items():
            writers: dict[type, Any] = {
                bool: file.add_bool, int: file.add_uint32, float: file.add_float32, str: file.add_string}
            writers[type(value)](f"{file.arch}.{name.replace('__', '.')}", value)
    return add


def factors_of_llama3(file: gguf.GGUFWriter) -> None:
    """Write Llama 3's rotary factors as a tensor, as llama.cpp's converter does."""
    config = LlamaConfig(**SIZES, rope_parameters=LLAMA3 | THETA)
    plain = LlamaConfig(**SIZES)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, CPU)
    frequencies = plain.rope_parameters["rope_theta"] ** (-torch.arange(0, 16, 2) / 16)
    file.add_tensor("rope_freqs.weight", (frequencies / scaled).numpy().astype(np.float32))


def short_and_long(file: gguf.GGUFWriter) -> None:
    with_keys(rope__scaling__original_context_length=24, rope__scaling__attn_factor=1.19)(file)
    for name, factors in LISTS.items():
        file.add_tensor(f"rope_factors_{name}.weight", np.asarray(factors, np.float32))


LISTS = {"short": [1.0 + number / 8 for number in range(8)], "long": [2.0 + number for number in range(8)]}
LONGROPE = {"rope_type": "longrope", "short_factor": LISTS["short"], "long_factor": LISTS["long"],
            "attention_factor": 1.19, "original_max_position_embeddings": 24, "factor": 1.0}
ROPES: dict[str, tuple[dict[str, Any], Add]] = {
    "none": ({"rope_type": "default"}, with_keys(rope__scaling__type="none", rope__scaling__factor=4.0)),
    "linear": ({"rope_type": "linear", "factor": 4.0}, with_keys(
        rope__scaling__type="linear", rope__scaling__factor=4.0)),
    "by the factor alone": ({"rope_type": "linear", "factor": 4.0}, with_keys(rope__scaling__factor=4.0)),
    "by the older name": ({"rope_type": "linear", "factor": 4.0}, with_keys(rope__scale_linear=4.0)),
    "yarn": (YARN, with_keys(rope__scaling__type="yarn", rope__scaling__factor=4.0,
                             rope__scaling__original_context_length=256)),
    "yarn by its ramp": (YARN | {"beta_fast": 8.0, "beta_slow": 0.5}, with_keys(
        rope__scaling__type="yarn", rope__scaling__factor=4.0, rope__scaling__original_context_length=256,
        rope__scaling__yarn_beta_fast=8.0, rope__scaling__yarn_beta_slow=0.5)),
    "factors of Llama 3.1": (LLAMA3, factors_of_llama3),
    "short and long factors": (LONGROPE, short_and_long)}


@pytest.mark.parametrize("rope", [*ROPES, "heads of another size"])
def test_rotary_angles_follow_the_files_keys(rope: str, tmp_path: Path) -> None:
    if rope in ROPES:
        parameters, add = ROPES[rope]
        model: Any = small_llama(rope_parameters=parameters | THETA)
        file = write_gguf(tmp_path / "small.gguf", model, "F32", add=add)
    else:
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(Qwen3Config(**{**SIZES, "head_dim": 32}, rope_parameters=YARN | THETA)).eval()
        file = write_gguf(tmp_path / "small.gguf", model, "F32", "qwen3", with_keys(
            attention__key_length=32, attention__value_length=32, rope__scaling__type="yarn",
            rope__scaling__factor=4.0, rope__scaling__original_context_length=256))
    converted, plain = load_causal(convert_gguf(str(file)), torch.float32, CPU), small_llama()
    for length in (20, 60):
        tokens = torch.arange(length)[None] % 30
        torch.testing.assert_close(converted(tokens).logits, model(tokens).logits, atol=1e-4, rtol=1e-4)
    apart = (plain(tokens).logits - model(tokens).logits).abs().max()
    assert rope == "none" or apart > 1e-3, "the scaling changes something"


def test_rope_scaling_applies_to_full_attention_layers_alone() -> None:
    fields = {"gemma3.rope.freq_base": 1e6, "gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0,
              "gemma3.attention.sliding_window_pattern": (True, False, True, False), "gemma3.attention.key_length": 32}
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 4}
    config = Gemma3TextConfig(**sizes, head_dim=32)
    follow_metadata(Path("x.gguf"), GgufHeader("gemma3", "F32", fields, {}), config)
    wanted = Gemma3TextConfig(**sizes, head_dim=32, layer_types=config.layer_types, rope_parameters={
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})
    for name in ("full_attention_inv_freq", "sliding_attention_inv_freq"):
        torch.testing.assert_close(*(getattr(Gemma3RotaryEmbedding(each), name) for each in (config, wanted)))
    assert config.layer_types == ["sliding_attention", "full_attention"] * 2


REFUSED = {
    "rope.scaling.type = sideways": with_keys(rope__scaling__type="sideways", rope__scaling__factor=2.0),
    "rope.scaling.yarn_log_multiplier = 0.5": with_keys(rope__scaling__type="yarn", rope__scaling__factor=2.0,
                                                        rope__scaling__yarn_log_multiplier=0.5),
    "expert_count = 8": with_keys(expert_count=8),
    "attention.causal = False": with_keys(attention__causal=False),
    "logit_scale = 0.25": with_keys(logit_scale=0.25),
    "attention.sliding_window = 512": with_keys(attention__sliding_window=512),
    "attention.value_length = 8": with_keys(attention__value_length=8),
    "never_heard_of = 3": with_keys(never_heard_of=3),
    "blk.0.attn_q.bias": lambda file: file.add_tensor("blk.0.attn_q.bias", np.ones(64, np.float32)),
    "model.layers.1.mlp.up_proj": id,  # left out
    "rotary factors that are not 8": lambda file: file.add_tensor("rope_freqs.weight", np.ones(4, np.float32))}


@pytest.mark.parametrize("named", REFUSED)
def test_unsupported_keys_that_change_the_model_are_refused_by_name(named: str, tmp_path: Path) -> None:
    left_out = "layers.1.mlp.up_proj" if named.startswith("model.") else "nothing"
    file = write_gguf(tmp_path / "small.gguf", small_llama(), add=REFUSED[named], leave_out=left_out)
    with pytest.raises(RigError) as caught:
        convert_gguf(str(file))
    assert named in str(caught.value)


@pytest.mark.parametrize(("turned", "size"), [(8, 16), (0, 0), (1, 1), (2**31, 2**31)])
def test_impossible_head_sizes_are_refused(turned: int, size: int) -> None:
    fields = {"llama.rope.dimension_count": turned, "llama.attention.key_length": size}
    with pytest.raises(RigError, match=f"x.gguf.*{turned}"):
        follow_metadata(Path("x.gguf"), GgufHeader("llama", "F32", fields, {}), LlamaConfig(**SIZES))


@pytest.mark.parametrize("add", [
    with_keys(rope__scaling__factor="fast"), with_keys(attention__key_length=0.5),
    with_keys(rope__scaling__original_context_length="x", rope__scaling__type="yarn")])
def test_values_of_the_wrong_type_are_refused(add: Add, tmp_path: Path) -> None:
    with pytest.raises(RigError, match="odd.gguf"):
        convert_gguf(str(write_gguf(tmp_path / "odd.gguf", small_llama(), add=add)))


def test_keys_with_neutral_values_are_accepted(tmp_path: Path) -> None:
    add = with_keys(expert_count=0, attention__causal=True, attention__key_length=16, attention__value_length=16,
                    attention__sliding_window=1024, logit_scale=1.0, rope__scaling__finetuned=False)
    assert convert_gguf(str(write_gguf(tmp_path / "small.gguf", small_llama(), add=add))).is_dir()


def test_partial_rotation_with_two_lists_of_factors_is_read(tmp_path: Path) -> None:
    short, long_ = np.asarray([1, 2, 3, 4, 5, 6], np.float32), np.asarray([4, 8, 9, 10, 11, 12], np.float32)
    file = tmp_path / "phi.gguf"
    np.concatenate([short, long_]).tofile(file)
    fields = {"phi3.rope.dimension_count": 12, "phi3.rope.freq_base": 1e4, "phi3.rope.scaling.attn_factor": 1.19,
              "phi3.rope.scaling.original_context_length": 32, "phi3.attention.sliding_window": 48}
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1, "max_position_embeddings": 256,
             "pad_token_id": 0}
    config = Phi3Config(**sizes)
    follow_metadata(file, GgufHeader("phi3", "F32", fields, {
        "rope_factors_short.weight": TensorPlace("F32", 6, 0), "rope_factors_long.weight": TensorPlace("F32", 6, 24)}),
        config)
    wanted = Phi3Config(**sizes, original_max_position_embeddings=32, sliding_window=48, partial_rotary_factor=0.75,
                        rope_parameters={"rope_type": "longrope", "rope_theta": 1e4, "short_factor": short.tolist(),
                                         "long_factor": long_.tolist(), "attention_factor": 1.19})
    kept = Phi3Config(**json.loads(config.to_json_string()))  # as written beside the weights
    for length in (32, 33):
        positions, like = torch.arange(length)[None], torch.zeros(1)
        for turned, right in zip(*(Phi3RotaryEmbedding(each)(like, positions) for each in (kept, wanted)), strict=True):
            torch.testing.assert_close(turned, right)
    assert kept.sliding_window == 48 and longrope_switch_length(kept) == 32
