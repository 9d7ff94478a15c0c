"""Checkpoint folders to models. Safetensors only, no code from the checkpoint, and one sentence when it cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase, Qwen3Config

from engine.drafters.dflash_model import DFlashModel
from engine.errors import RigError


def load_target(folder: Path, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """The target of a local folder, in evaluation mode."""
    _require(folder, "config.json")
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, local_files_only=True, attn_implementation="sdpa")
    except (OSError, SafetensorError, ValueError, RuntimeError) as error:
        raise RigError(
            f"The target in {folder.name} cannot be loaded ({_first_line(error)}); fetch it again.") from error
    return model.to(device).eval()


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer beside a target."""
    _require(folder, "tokenizer.json")
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise RigError(
            f"The tokenizer in {folder.name} cannot be loaded ({_first_line(error)}); fetch it again.") from error


def load_head(folder: Path, target: PreTrainedModel) -> DFlashModel:
    """A block-diffusion head of a local folder, on the target's device and in its dtype."""
    config = head_config(folder)
    weights = _weights(folder)
    with torch.device("meta"):
        model = DFlashModel(config)
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in weights.items()}
    if wanted != found:
        odd = sorted(set(wanted.items()) ^ set(found.items()))[0]
        raise RigError(
            f"The head in {folder.name} does not fit its own config: tensor {odd[0]} "
            f"has shape {found.get(odd[0], 'nothing')} where {wanted.get(odd[0], 'nothing')} is expected.")
    if config.hidden_size != target.config.get_text_config().hidden_size:
        raise RigError(
            f"The head in {folder.name} has hidden size {config.hidden_size}; the target has "
            f"{target.config.get_text_config().hidden_size}. A head serves only the target it was trained on.")
    model = DFlashModel(config)  # again with real buffers: the rotary frequencies are not in the file
    model.load_state_dict(weights)
    return model.to(device=target.device, dtype=target.dtype).eval()


def head_config(folder: Path) -> Qwen3Config:
    """The head's config with block size, mask token and taps, wherever the checkpoint keeps them."""
    path = _require(folder, "config.json")
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    except ValueError as error:
        raise RigError(f"config.json in {folder.name} is not JSON ({_first_line(error)}).") from error
    inner = dict(values.get("dflash_config") or {})
    for name in ("mask_token_id", "target_layer_ids", "block_size"):
        inner.setdefault(name, values.get(name))
        if inner[name] is None:
            raise RigError(f"config.json in {folder.name} names no {name}; a DFlash head cannot be run without it.")
    config = Qwen3Config(**{key: value for key, value in values.items() if key not in ("auto_map", "dflash_config")})
    config.block_size, config.dflash_config = inner.pop("block_size"), inner
    return config


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    path = _require(folder, "model.safetensors")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise RigError(
            f"model.safetensors in {folder.name} is cut off or damaged ({_first_line(error)}); fetch it again."
        ) from error


def _require(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise RigError(f"{folder.name} has no {name}; the checkpoint is missing or incomplete.")
    return path


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:300].rstrip(".")
