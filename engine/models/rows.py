"""A tree's rows on the device. A copy to or from a GPU takes microseconds whatever its size, so arrays that are needed
together are copied as one buffer."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.records import PackedTree

EMPTY = torch.empty(0)
NUMBERS = {torch.float32: np.float32, torch.int32: np.int32}  # what ``to_host`` returns


class PassRows(NamedTuple):
    """One text's rows of a pass, on the device.

    tokens, positions: (rows,) integers.
    visible: (rows, rows) bool, which row sees which. None: each row sees all rows before it.
    parents: (rows,) int32, the root's being 0; empty if the rows are no tree.
    draws: (rows,) float64 in [0, 1), the draw of the token after each row; empty at temperature 0.
    levels: the rows of each depth, (n,) int64 each, for recurrent layers; empty without them.
    """

    tokens: Tensor
    positions: Tensor
    visible: Tensor | None = None
    parents: Tensor = EMPTY
    draws: Tensor = EMPTY
    levels: tuple[Tensor, ...] = ()


class PassPart(NamedTuple):
    """One text's rows and cache in a pass. ``interrupt`` is called before each layer of a pass of this text alone; it
    raises to abort the pass."""

    rows: PassRows
    cache: Any  # the fused pass's is a ``TreeCache``
    interrupt: Callable[[], None] | None = None

    @property
    def end(self) -> int:
        """The number of filled slots once its rows are written."""
        return int(self.cache.length) + len(self.rows.tokens)


def tree_rows(packed: PackedTree, draws: NDArray[np.float64], device: torch.device, levels: bool = False) -> PassRows:
    """Copy a packed tree's rows to a device, with ``levels`` if there are recurrent layers."""
    several = len(packed.tokens) > 1
    depths = packed.positions - packed.positions[0]
    order = np.argsort(depths, kind="stable") if levels and several else np.zeros(0, np.int64)
    on_device = to_device([draws, order, packed.tokens, packed.positions, packed.parents,
                           *([packed.visible] if several else [])], device)
    draws_there, order_there, tokens, positions, parents, *visible = on_device
    by_depth = order_there.split(np.bincount(depths).tolist()) if len(order) else ()
    return PassRows(tokens, positions, visible[0] if several else None, parents, draws_there, by_depth)


def to_device(arrays: Sequence[NDArray[Any]], device: torch.device) -> list[Tensor]:
    """Copy numpy arrays to a device in one transfer. Pass those of larger dtypes first, because a tensor has to start
    at a multiple of its dtype's size."""
    if device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    joined = np.concatenate([np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays])
    parts = torch.from_numpy(joined).to(device).split([array.nbytes for array in arrays])
    return [part.view(torch.from_numpy(array[:0]).dtype).view(array.shape)
            for part, array in zip(parts, arrays, strict=True)]


def to_host(*tensors: Tensor) -> list[NDArray[Any]]:
    """Copy tensors of int32 and float32 to numpy arrays in one transfer."""
    if tensors[0].device.type == "cpu":
        return [tensor.numpy() for tensor in tensors]
    joined = torch.cat([tensor.reshape(-1).view(torch.int32) for tensor in tensors]).cpu().numpy()
    ends = np.cumsum([tensor.numel() for tensor in tensors])[:-1]
    return [part.view(NUMBERS[tensor.dtype]).reshape(tensor.shape)
            for part, tensor in zip(np.split(joined, ends), tensors, strict=True)]
