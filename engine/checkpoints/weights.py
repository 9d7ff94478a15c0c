"""Loads a checkpoint's tensors and fills models with them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from engine.checkpoints.files import damaged, display_name, weight_files
from engine.checkpoints.quantised import check_floats
from engine.errors import RigError

Model = TypeVar("Model", bound=nn.Module)


def load_weights(folder: Path, wanted: str = "") -> dict[str, Tensor]:
    """The tensors of a folder by name, as they are stored, whose names begin with the regular expression ``wanted``;
    RigError if a file is missing, damaged or quantised."""
    check_floats(folder)
    weights: dict[str, Tensor] = {}
    for path in weight_files(folder):
        try:
            with safe_open(path, "pt") as tensors:
                names = [name for name in tensors.keys() if re.match(wanted, name)]  # noqa: SIM118  # no mapping
                weights.update({name: tensors.get_tensor(name) for name in names})
        except (SafetensorError, OSError) as error:
            raise damaged(path, error) from error
    return weights


def move_model(model: Model, device: torch.device, dtype: torch.dtype) -> Model:
    """The model on this device, with its weights in this dtype. Its buffers keep theirs: rotary frequencies rounded to
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
