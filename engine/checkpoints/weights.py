"""Loads a checkpoint's tensors and fills models with them, unless they are quantised."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from engine.checkpoints.files import damaged_error, display_name, read_config, read_object, stored_tensors, weight_files
from engine.errors import RigError

Model = TypeVar("Model", bound=nn.Module)
QUANTISATION_FILES = ("quantize_config.json", "quant_config.json", "hf_quant_config.json")  # GPTQ, AWQ, ModelOpt
PLAIN = frozenset({"F64", "F32", "F16", "BF16", "I64", "BOOL"})  # how tensors are stored that are not quantised
DERIVED_TENSORS = ("rotary_emb.inv_freq", "attn.bias", "attn.masked_bias")  # stored by old checkpoints


def check_not_quantised(folder: Path) -> None:
    """Raise RigError if a file beside the weights says that they are quantised."""
    values, methods = read_config(folder), list[object]()
    for part in (values, values.get("text_config") or {}):
        if options := part.get("quantization_config") or part.get("compression_config"):
            bits = options.get("load_in_4bit") or options.get("load_in_8bit")
            methods.append("bitsandbytes" if bits else options.get("quant_method", "by an unnamed method"))
    if values.get("quantization"):
        methods.append("quantization in config.json")
    for name in QUANTISATION_FILES:
        if (folder / name).is_file():
            about = read_object(folder / name).get("quantization", {})
            if not isinstance(about, dict) or about.get("quant_algo", name):  # ModelOpt's may be about the KV cache
                methods.append(name)
    _refuse_quantised(folder, methods)


def check_floats(folder: Path) -> None:
    """Raise RigError naming a matrix that is stored in a type that models do not compute in."""
    _refuse_quantised(folder, [
        f"{name} is stored as {kind}" for name, (kind, shape) in stored_tensors(folder).items()
        if len(shape) > 1 and kind not in PLAIN and not name.endswith(DERIVED_TENSORS)])


def _refuse_quantised(folder: Path, methods: Sequence[object]) -> None:
    if methods:
        raise RigError(f"The model in {display_name(folder)} cannot be read: its weights are quantised ({methods[0]}); "
                       "Canopy reads bfloat16, float16 and float32 weights, so name an unquantised checkpoint.")


def load_weights(folder: Path, pattern: str = "") -> dict[str, Tensor]:
    """Return the tensors whose names match at their start; RigError if a file is missing, damaged or quantised."""
    check_floats(folder)
    weights: dict[str, Tensor] = {}
    for path in weight_files(folder):
        try:
            with safe_open(path, "pt") as tensors:
                names = [name for name in tensors.keys() if re.match(pattern, name)]  # noqa: SIM118  # no mapping
                weights.update({name: tensors.get_tensor(name) for name in names})
        except (SafetensorError, OSError) as error:
            raise damaged_error(path, error) from error
    return weights


def move_model(model: Model, device: torch.device, dtype: torch.dtype) -> Model:
    """Move the model to this device, its weights in this dtype. Buffers keep theirs, because rotary frequencies in
    bfloat16 would be off by half a radian at position 1,000."""
    for value in model.parameters():
        value.data = value.data.to(dtype)
    return model.to(device)


def fill_model(model: nn.Module, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Load the weights into a model of exactly these tensors; RigError names the first that does not fit."""
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    stored = {name: tuple(value.shape) for name, value in weights.items()}
    if expected != stored:
        misfit = sorted(set(expected.items()) ^ set(stored.items()))[0][0]
        raise RigError(
            f"The drafter in {display_name(folder)} does not fit its own config: tensor {misfit} "
            f"has shape {stored.get(misfit, 'nothing')}; {expected.get(misfit, 'nothing')} is expected.")
    model.load_state_dict(weights)
