"""Spreads a target that is larger than one GPU over several.

Layers go to the GPUs in order, so that the hidden states move from each GPU to the next once. Everything else
(embedding, final norm, output head) lies on the first GPU with the drafters, which share embedding and output head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from engine.checkpoints.files import parameters
from engine.checkpoints.memory import (
    GIGA,
    Storage,
    fits,
    free_bytes,
    must_fit_into_memory,
    usual_cache_bytes,
)
from engine.checkpoints.opening import Opening
from engine.errors import RigError

Places = Mapping[str, int]  # from modules' names to GPUs' numbers; empty for a single device
FULLEST_PERCENT = 90  # of the free memory; the rest is for logits, masks and longer texts


def places_of(folders: Sequence[Path], config: PreTrainedConfig, storage: Storage, device: torch.device,
              opening: Opening) -> Places:
    """The places of the target's modules, its folder being the first; empty where all folders fit on the device.

    RigError where all GPUs together have too little room, or where this machine cannot spread a model.
    """
    text, counts = config.get_text_config(), [parameters(folder) for folder in folders]
    several = device.type == "cuda" and device.index is None and torch.cuda.device_count() > 1
    if not several or fits(sum(counts), text, storage, device, opening):
        must_fit_into_memory(sum(counts), text, storage, device, opening)
        return {}
    free = [free_bytes(torch.device("cuda", number)) for number in range(torch.cuda.device_count())]
    drafters = int(sum(counts[1:]) * storage.weight_bytes)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=storage.weights)
    return spread(model, usual_cache_bytes(text, storage), drafters, free)


def spread(model: PreTrainedModel, cache: int, drafters: int, free: Sequence[int]) -> Places:
    """The places of a model's modules. ``cache`` is the bytes of all layers' caches, ``drafters`` those on the first
    GPU, ``free`` those that each GPU has; RigError where they do not suffice."""
    layers = getattr(model.base_model, "layers", None)
    if not isinstance(layers, nn.ModuleList):
        raise RigError(f"The layers of a {model.config.model_type} cannot be told apart, so it cannot be spread over "
                       "several GPUs; choose a target that fits on one.")
    sizes = [_bytes(layer) + cache // len(layers) for layer in layers]
    rest = _bytes(model) - sum(map(_bytes, layers)) + drafters
    found = balanced(sizes, rest, free)
    if not found:
        raise RigError(f"The rig needs about {(sum(sizes) + rest) / GIGA:.1f} GB, and the {len(free)} GPUs have "
                       f"{', '.join(f'{each / GIGA:.1f}' for each in free)} GB free, of which {FULLEST_PERCENT} % are "
                       "taken at most; choose a smaller target, or free memory that other programs hold.")
    prefix = model.base_model_prefix
    others = [name for name, _ in model.named_children() if name != prefix]
    others += [f"{prefix}.{name}" for name, _ in model.base_model.named_children() if name != "layers"]
    return {**dict.fromkeys(others, 0), **{f"{prefix}.layers.{number}": gpu for number, gpu in enumerate(found)}}


def balanced(layers: Sequence[int], rest: int, free: Sequence[int]) -> list[int]:
    """The GPU of each layer, in order, such that the fullest GPU is as empty as possible; empty without enough room.
    All in bytes; ``rest`` lies on the first GPU."""
    for percent in range(1, FULLEST_PERCENT + 1):
        found = _filled(layers, rest, [each * percent // 100 for each in free])
        if found:
            return found
    return []


def _filled(layers: Sequence[int], rest: int, room: Sequence[int]) -> list[int]:
    left, found = [room[0] - rest, *room[1:]], []
    gpu = 0
    for size in layers:
        while gpu < len(left) and left[gpu] < size:
            gpu += 1
        if gpu == len(left) or left[0] < 0:
            return []
        left[gpu] -= size
        found.append(gpu)
    return found


def _bytes(module: nn.Module) -> int:
    return sum(value.nbytes for value in module.parameters())
