"""Drafters in GGUF files propose the same tokens as the published folders that they were converted from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.torch import load_file

from engine.checkpoints.gguf_drafters import LAYER_TENSORS, OTHER_TENSORS
from engine.records import Request
from engine.serving.rigs import load_rig
from tests.engine.checkpoints.test_drafter_folders import DRAFTING, SHORT, proposals_of
from tests.engine.drafters.test_eagle3 import write_eagle3
from tests.engine.helpers import run
from tests.engine.published import (
    SHORT_DRAFTER,
    SIZES,
    dflash_shapes,
    refused,
    write_config,
    write_short,
    write_weights,
)

Add = Callable[[gguf.GGUFWriter], object]


def write_gguf_drafter(folder: Path, architecture: str, values: dict[str, Any], add: Add = id) -> Path:
    """Write a folder's drafter as llama.cpp's converter does, with the keys in ``values``."""
    writer = gguf.GGUFWriter(folder.with_suffix(".gguf"), architecture)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for key, value in {
            "context_length": 2048, "embedding_length": SIZES["hidden_size"], "vocab_size": SHORT_DRAFTER["vocab_size"],
            "feed_forward_length": SIZES["intermediate_size"], "attention.head_count": SIZES["num_attention_heads"],
            "attention.head_count_kv": SIZES["num_key_value_heads"], "attention.key_length": SIZES["head_dim"],
            "attention.value_length": SIZES["head_dim"], "rope.dimension_count": SIZES["head_dim"], **values}.items():
        name = key if key.startswith("tokenizer.") else f"{architecture}.{key}"
        kind: dict[type, Any] = {
            bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}
        kind[type(value)](name, value)
    add(writer)
    parts = {published: stored for stored, published in OTHER_TENSORS.items()}
    layers = {published: stored for stored, published in LAYER_TENSORS.items()}
    for name, value in load_file(folder / "model.safetensors").items():
        part, data = name.removesuffix(".weight").removesuffix(".bias"), value.numpy()
        ending = name.removeprefix(part)
        if part == "t2d":
            continue
        if part == "d2t":
            writer.add_tensor("d2t", data + np.arange(len(data)))
            continue
        if architecture == "eagle3" and part.endswith(("q_proj", "k_proj")):
            data = data.reshape(-1, 2, SIZES["head_dim"] // 2, data.shape[1]).swapaxes(1, 2).reshape(data.shape)
        if part in parts:
            stored = parts[part] + (ending or ".weight" * ("codebook" in part))
        else:
            number, _, part = part.removeprefix("layers.").partition(".")
            stored = f"blk.{number if number.isdecimal() else 0}.{layers[part]}{ending}"
        writer.add_tensor(stored, np.ascontiguousarray(data))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    return folder.with_suffix(".gguf")


DFLASH = {"block_count": 2, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6, "block_size": 8,
          "target_layers": [2, 4], "tokenizer.ggml.mask_token_id": 3, "attention.causal": False}
CASES: dict[str, dict[str, Any]] = {
    "DFlash": DFLASH,
    "DFlash 2 of Qwen3.8": {**DFLASH, "conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 6,
                            "selector_top_k": 16},
    "DFlash 2 of Muse Glimmer": {**DFLASH, "conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 6,
                                 "selector_top_k": 16, "logit_scale": 0.196, "final_logit_softcapping": 20.0},
    "DSpark": {**DFLASH, "block_size": 7, "sample_from_anchor": True},
    "speculators dspark": {**DFLASH, "sample_from_anchor": True}}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return write_short(tmp_path / "target", "Qwen3-8B").parent


@pytest.mark.parametrize("name", CASES)
def test_a_converted_drafter_proposes_the_same_as_its_folder(name: str, made: Path) -> None:
    values, shapes, size = DRAFTING[name]
    folder = write_weights(write_config(made / "head", values), {**dflash_shapes(SHORT), **shapes})
    file = write_gguf_drafter(folder, "dflash", CASES[name])
    published, _ = proposals_of(f"{made / 'target'}::{folder}")
    converted, rig = proposals_of(f"{made / 'target'}::{file}")
    assert rig.target.taps == (1, 3) and converted.tokens.shape == size
    np.testing.assert_array_equal(converted.tokens, published.tokens)
    np.testing.assert_allclose(converted.logprobs, published.logprobs, atol=1e-6)


def test_a_converted_eagle3_keeps_its_map_and_tapped_layers(tmp_path: Path) -> None:
    target = write_short(tmp_path / "target", "Llama-3.1-8B-Instruct", num_hidden_layers=8)
    folder = write_eagle3(tmp_path / "head")
    file = write_gguf_drafter(folder, "eagle3", {
        "block_count": 1, "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 1e4,
        "extract_layers": [2, 4, 5], "target_hidden_size": SIZES["hidden_size"], "norm_before_residual": False})
    lattices = []
    for drafter in (folder, file):
        rig = load_rig(f"{target}::{drafter}", "float32")
        assert rig.target.taps == (1, 3, 4)
        request = Request(tuple(range(40, 52)), method="expand", budget=12, max_tokens=4)
        lattices.append(run(request, rig.target, [rig.drafters["drafter"]])[0].drafts[0])
    np.testing.assert_array_equal(lattices[0].tokens, lattices[1].tokens)
    np.testing.assert_allclose(lattices[0].logprobs, lattices[1].logprobs, atol=1e-5)


def test_a_converted_drafter_keeps_sliding_layers_and_scaled_angles(made: Path) -> None:
    values, _, _ = DRAFTING["DFlash"]
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
    folder = write_weights(write_config(made / "head", {
        **values, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 6, "is_causal": False,
        "use_sliding_window": True, "rope_scaling": scaling}), dflash_shapes(SHORT))
    file = write_gguf_drafter(folder, "dflash", {
        **DFLASH, "attention.sliding_window": 6, "attention.sliding_window_pattern": [True, False],
        "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 512},
        lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.YARN))
    published, _ = proposals_of(f"{made / 'target'}::{folder}")
    converted, _ = proposals_of(f"{made / 'target'}::{file}")
    np.testing.assert_array_equal(converted.tokens, published.tokens)
    np.testing.assert_allclose(converted.logprobs, published.logprobs, atol=1e-4)


@pytest.mark.parametrize(("changes", "tensors", "named"), [
    ({"hyper_connection.count": 4}, {}, "dflash.hyper_connection.count = 4"),
    ({"target_layers": [2, 90]}, {}, "layers 1, 89"),
    ({}, {"blk.0.attn_sinks.weight": np.zeros(4, np.float32)}, "attn_sinks")])
def test_keys_and_tensors_without_a_counterpart_are_refused_by_name(
        changes: dict[str, Any], tensors: dict[str, Any], named: str, made: Path) -> None:
    values, _, _ = DRAFTING["DFlash"]
    folder = write_weights(write_config(made / "head", values), dflash_shapes(SHORT))

    def add(writer: gguf.GGUFWriter) -> None:
        for name, value in tensors.items():
            writer.add_tensor(name, value)
    file = write_gguf_drafter(folder, "dflash", {**DFLASH, **changes}, add)
    assert named in refused(f"{made / 'target'}::{file}")
