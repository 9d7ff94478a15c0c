"""A target larger than one GPU: the placement of its layers, and the error if they do not fit. These tests need no GPU;
``tests/engine/models/test_trees.py`` compares a split target with plain decoding."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from engine.checkpoints.loading import causal_config
from engine.checkpoints.memory import DEFAULT_CONTEXT, assign_gpus, choose_device_map, make_device_map
from engine.errors import RigError
from engine.models.device import gpus_of
from engine.serving import rigs
from engine.serving.precision import storage_of
from engine.serving.rigs import load_rig
from tests.engine.published import write_short, write_short_dflash

CUDA = torch.device("cuda")


@pytest.mark.parametrize(("layers", "rest", "free", "expected"), [
    ([10] * 4, 0, [100, 100], [0, 0, 1, 1]),
    ([10] * 4, 20, [100, 100], [0, 1, 1, 1]),  # the first GPU also holds embedding, head and drafters
    ([10] * 6, 0, [100, 50, 50], [0, 0, 0, 0, 1, 1]),  # the fullest GPU is as empty as possible
    ([10] * 4, 0, [100, 4], [0, 0, 0, 0]),
    ([10] * 4, 0, [20, 20], []),  # a tenth of each GPU stays free
    ([10] * 4, 99, [100, 100], []),
    ([60], 0, [50, 50], []),
])
def test_layers_go_to_the_gpus_in_order(layers: list[int], rest: int, free: list[int], expected: list[int]) -> None:
    assert assign_gpus(layers, rest, free) == expected


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("spread")
    return [write_short(folder / "target", "Qwen3-8B"), write_short_dflash(folder / "head", "Qwen3-8B")]


def gpus(monkeypatch: pytest.MonkeyPatch, *free: int) -> None:
    """Pretend that the machine has GPUs with these numbers of free bytes."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(free))
    monkeypatch.setattr("engine.checkpoints.memory.free_bytes", lambda device: free[device.index or 0])


def gpu_of_modules(folders: list[Path]) -> dict[str, int]:
    return dict(choose_device_map(folders, causal_config(folders[0]), storage_of("float32"), CUDA, DEFAULT_CONTEXT))


def test_a_target_is_split_only_if_one_gpu_is_too_small(
        folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 10**9, 10**9)
    assert gpu_of_modules(folders) == {}
    gpus(monkeypatch, 900_000, 900_000)
    device_map = gpu_of_modules(folders)
    layers = [device_map.pop(f"model.layers.{number}") for number in range(6)]
    assert layers == sorted(layers) and set(layers) == {0, 1}
    assert device_map == dict.fromkeys(("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"), 0), (
        "modules that drafters share are on their GPU")


@pytest.mark.parametrize(("free", "named"), [((10**5,), "0.0 GB free"), ((300_000, 300_000), "2 GPUs have 0.0, 0.0")])
def test_too_little_memory_on_all_gpus_is_refused(
        free: tuple[int, ...], named: str, folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, *free)
    with pytest.raises(RigError, match=named):
        gpu_of_modules(folders)


def test_a_target_with_other_layer_names_is_not_split() -> None:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model("gpt2"))
    with pytest.raises(RigError, match="gpt2"):
        make_device_map(model, 0, 0, [10**9, 10**9])


def test_the_device_map_reaches_the_loader_and_no_module_is_moved(
        folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    load = AutoModelForCausalLM.from_pretrained

    def loaded(*where: Any, device_map: dict[str, int] | None, **named: Any) -> Any:
        given["device_map"] = device_map
        model, report = load(*where, **named)
        model.hf_device_map = device_map
        monkeypatch.setattr(type(model), "to", lambda *_: pytest.fail("the model was moved to one device"))
        return model, report

    device_map = {"model.embed_tokens": 0, "model.layers.0": 0, "model.layers.1": 1}
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", loaded)
    monkeypatch.setattr(rigs, "choose_device_map", lambda *_: device_map)
    rig = load_rig(f"{folders[0]}::{folders[1]}", "float32", "cpu")
    assert given["device_map"] == device_map and gpus_of(rig.target.model) == 2
