"""Checks whether a rig fits into memory, before anything large is read or made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch

from engine.checkpoints.opening import ALONE, Opening
from engine.errors import RigError

GIGA = 1e9
USUAL_POSITIONS = 4096  # the length of a cache that a rig should have room for at least


@dataclass(frozen=True)
class Storage:
    """What a rig opened in the dtype ``name`` holds in memory: the dtypes of weights and of keys and values, and how
    many more bytes it holds per weight."""

    name: str
    weights: torch.dtype
    cache: torch.dtype
    besides: float = 0.0

    @property
    def weight_bytes(self) -> float:
        """Bytes per weight in all."""
        return self.weights.itemsize + self.besides


def must_fit_into_memory(count: int, text: Any, storage: Storage, device: torch.device,
                         opening: Opening = ALONE) -> None:
    """RigError where ``count`` weights and a cache of ``USUAL_POSITIONS`` need more memory than is free."""
    weights, cache = _needed(count, text, storage)
    free = _left(device, opening)
    if weights + cache > free:
        where = "the GPU" if device.type == "cuda" else "this machine"
        raise RigError(
            f"The rig needs about {(weights + cache) / GIGA:.1f} GB ({weights / GIGA:.1f} of weights in "
            f"{storage.name}, {cache / GIGA:.1f} of cache), and {where} has {free / GIGA:.1f} GB "
            f"free{_beside(opening)}; choose a smaller target, or free memory that other programs hold.")


def fits(count: int, text: Any, storage: Storage, device: torch.device, opening: Opening) -> bool:
    """Whether ``must_fit_into_memory`` raises nothing."""
    return sum(_needed(count, text, storage)) <= _left(device, opening)


def _needed(count: int, text: Any, storage: Storage) -> tuple[int, int]:
    """The bytes of the weights, and of a cache of ``USUAL_POSITIONS``."""
    return int(count * storage.weight_bytes), usual_cache_bytes(text, storage)


def _left(device: torch.device, opening: Opening) -> int:
    return max(0, free_bytes(device) - (0 if device.type == "cuda" else opening.held_bytes))


def _beside(opening: Opening) -> str:
    return f" beside the {opening.beside}" if opening.beside else ""


def usual_cache_bytes(text: Any, storage: Storage) -> int:
    """Bytes of a cache of usual length."""
    return cache_bytes(text, min(USUAL_POSITIONS, int(text.max_position_embeddings)), storage.cache)


def cache_bytes(text: Any, positions: int, dtype: torch.dtype) -> int:
    """The bytes that the keys and values of this many positions take."""
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return 2 * int(text.num_hidden_layers) * int(heads) * int(size) * positions * dtype.itemsize


def free_bytes(device: torch.device) -> int:
    """How many bytes can still be allocated on a GPU; of a CPU, all of the machine's memory."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
