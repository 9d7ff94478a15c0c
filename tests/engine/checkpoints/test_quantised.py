"""Quantised weights of which config.json's quantization_config says nothing."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.serving.rigs import load_rig
from tests.engine.published import refused, write_short, write_short_dflash

QWEN, WEIGHTS = "Qwen3-8B", "model.safetensors"
BESIDE: dict[str, dict[str, Any]] = {
    "config.json": {"quantization": {"group_size": 64, "bits": 4}},
    "quantize_config.json": {"zero_point": True, "w_bit": 4, "q_group_size": 128},
    "quant_config.json": {"bits": 4},
    "hf_quant_config.json": {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_short(tmp_path_factory.mktemp("target") / "target", QWEN)


@pytest.fixture
def target(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "target")


def add(file: Path, values: dict[str, Any]) -> None:
    """Write a JSON file, or more into it."""
    known = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps({**known, **values}))


@pytest.mark.parametrize("name", BESIDE)
def test_a_file_that_speaks_of_quantised_weights(name: str, target: Path) -> None:
    add(target / name, BESIDE[name])
    sentence = refused(f"{target}::ngram")
    assert "quantised" in sentence and name in sentence


def test_quantised_keys_and_values_are_no_quantised_weights(target: Path) -> None:
    add(target / "hf_quant_config.json", {"quantization": {"quant_algo": None, "kv_cache_quant_algo": "FP8"}})
    assert load_rig(f"{target}::ngram", "float32", "cpu").target.dtype == "float32"


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.float8_e4m3fn])
def test_a_matrix_that_is_no_floats_is_named(dtype: torch.dtype, target: Path) -> None:
    drafter = write_short_dflash(target.parent / "head", QWEN)
    for folder, name in ((target, "model.layers.1.mlp.up_proj.weight"), (drafter, "layers.0.mlp.up_proj.weight")):
        weights = load_file(folder / WEIGHTS)
        sound = (folder / WEIGHTS).read_bytes()
        save_file({**weights, name: (weights[name] * 20).to(dtype)}, folder / WEIGHTS, metadata={"format": "pt"})
        sentence = refused(f"{target}::{drafter}")
        assert "quantised" in sentence and name in sentence
        (folder / WEIGHTS).write_bytes(sound)
