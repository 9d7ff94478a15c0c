"""Targets and drafters of published sizes with random weights, to measure rounds without a download."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PretrainedConfig, Qwen3Config

from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.dflash.model import DFlashModel
from engine.errors import RigError
from engine.runtime.checkpoints.files import placed
from engine.runtime.checkpoints.memory import GIGA, free_bytes
from engine.runtime.target.target import TorchTarget

SPREAD = 0.02  # standard deviation of random weights
SHARPNESS = 10.0  # of the drafter's logits: its trees are then about as deep as a trained drafter's


@dataclass(frozen=True)
class ModelShape:
    """A target's config, and its drafter's number of layers, block and taps. The drafter's layers have the target's
    sizes."""

    make: type[PretrainedConfig]
    target: Mapping[str, Any]
    layers: int
    block: int
    taps: tuple[int, ...]


QWEN3 = {"head_dim": 128, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 36,
         "vocab_size": 151936, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6,
         "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
SHAPES: Mapping[str, ModelShape] = MappingProxyType({
    "qwen3-8b": ModelShape(Qwen3Config, {**QWEN3, "hidden_size": 4096, "intermediate_size": 12288,
                                    "tie_word_embeddings": False}, 5, 16, (1, 9, 17, 25, 33)),
    "qwen3-4b": ModelShape(Qwen3Config, {**QWEN3, "hidden_size": 2560, "intermediate_size": 9728,
                                    "tie_word_embeddings": True}, 5, 16, (1, 9, 17, 25, 33)),
    "llama3.1-8b": ModelShape(LlamaConfig, {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192}}, 5, 10, (1, 8, 15, 22, 29)),
    "demo": ModelShape(Qwen3Config, {
        "hidden_size": 320, "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 6,
        "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1536, "max_position_embeddings": 1024,
        "tie_word_embeddings": True}, 3, 16, (1, 4, 6)),
    "tiny": ModelShape(Qwen3Config, {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512, "max_position_embeddings": 1024,
        "tie_word_embeddings": True}, 2, 6, (0, 1)),
})


def shape_named(name: str) -> ModelShape:
    """The shape of that name; RigError with the existing names where there is none."""
    if name not in SHAPES:
        raise RigError(f"There is no shape {name!r}; choose one of {', '.join(SHAPES)}.")
    return SHAPES[name]


def parameters_of(shape: ModelShape) -> int:
    """The number of parameters of target and drafter together, counted on torch's meta device."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(shape.make(**shape.target))
        drafter = DFlashModel(drafter_config(shape))
        return sum(value.numel() for value in (*model.parameters(), *drafter.parameters()))


def drafter_config(shape: ModelShape) -> Qwen3Config:
    """The config of the shape's drafter; its mask token is the vocabulary's last."""
    values = {**shape.target, "num_hidden_layers": shape.layers}
    config = Qwen3Config(**values)
    config.block_size = shape.block
    config.dflash_config = {"mask_token_id": config.vocab_size - 1, "target_layer_ids": list(shape.taps)}
    return config


def random_pair(shape: ModelShape, dtype: torch.dtype, device: torch.device) -> tuple[TorchTarget, DFlashDrafter]:
    """Target and drafter of a shape with random weights, the same each time; RigError where they do not fit."""
    needed, free = parameters_of(shape) * dtype.itemsize, free_bytes(device)
    if needed > free:
        raise RigError(f"Random weights of this shape need {needed / GIGA:.1f} GB, and {device} has "
                       f"{free / GIGA:.1f} GB; choose a smaller shape.")
    torch.manual_seed(0)
    with torch.device(device):
        config = shape.make(**shape.target, attn_implementation="sdpa")
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
        drafter = placed(DFlashModel(drafter_config(shape)), device, dtype)
        for value in (*model.parameters(), *drafter.parameters()):
            if value.ndim > 1:
                value.data.normal_(0, SPREAD)
        drafter.norm.weight.data.fill_(SHARPNESS / (SPREAD * math.sqrt(config.hidden_size)))
    target = TorchTarget(model, shape.taps)
    return target, DFlashDrafter(drafter, target.embedding, target.logits)
