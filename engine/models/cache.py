"""A KV cache that is allocated once, written in place, and compacted by the indices of the rows to keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Cache, PretrainedConfig

from engine.records import Integers


class TreeCache(Cache):  # type: ignore[misc]  # transformers' types are not read
    """Keys and values of every layer in one tensor, (layers, 2, 1, kv heads, capacity, head size), on the device and in
    the dtype of ``like``.

    The first ``length`` slots are committed. A pass writes its rows after them; ``keep`` moves the kept rows to the
    front (paper 003, "KV Cache Trimming"; paper 002, section 4.4) and drops the rest.
    """

    def __init__(self, config: PretrainedConfig, capacity: int, like: Tensor) -> None:
        super().__init__(layers=[])
        heads = config.num_key_value_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        # zeros, since a pass may read slots that were never written: what a mask hides is still multiplied by 0
        self.slots = like.new_zeros(config.num_hidden_layers, 2, 1, heads, capacity, size)
        self.length = 0
        # the same memory as bytes: on a CPU numpy moves some rows in a third of the time of a call to torch
        self._bytes = self.slots.view(torch.uint8).flatten(0, 3).numpy() if self.slots.device.type == "cpu" else None

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[
            Tensor, Tensor]:
        """Write new rows (1, kv heads, rows, head size) after the committed ones, and return the keys and values of all
        slots up to them, in the rows' dtype."""
        end = self.length + key_states.shape[-2]
        keys, values = self.slots[layer_idx]
        keys[:, :, self.length:end] = key_states
        values[:, :, self.length:end] = value_states
        return keys[:, :, :end].to(key_states.dtype), values[:, :, :end].to(value_states.dtype)

    def kv_slots(self, rows: int, whole: int = 1) -> Tensor:
        """A view of all committed slots and of ``rows`` slots after them, to write into: (layers, 2, kv heads, length +
        rows, head size). Where the capacity allows it, spare slots at the end make their number a multiple of
        ``whole``."""
        return self.slots[:, :, 0, :, :-(-(self.length + rows) // whole) * whole]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Committed slots."""
        return self.length

    def keep(self, rows: Integers) -> None:
        """Keep these rows (n,) int32 of the last pass, in this order. Nothing moves where they already lie in place."""
        end = self.length + len(rows)
        if rows[-1] != len(rows) - 1:
            source = rows + np.int64(self.length)
            if self._bytes is not None:
                self._bytes[:, self.length:end] = self._bytes.take(source, 1)
            else:
                self.slots[..., self.length:end, :] = self.slots.index_select(
                    -2, torch.from_numpy(source).to(self.slots.device))
        self.length = end


class SpreadCache(Cache):  # type: ignore[misc]  # see above
    """A ``TreeCache`` of a model whose layers lie on several devices: each layer's keys and values, (2, 1, kv heads,
    capacity, head size), lie where the layer runs, from its first pass on."""

    def __init__(self, capacity: int) -> None:
        super().__init__(layers=[])
        self.capacity, self.length = capacity, 0
        self.slots: dict[int, Tensor] = {}

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[
            Tensor, Tensor]:
        if layer_idx not in self.slots:
            heads, size = key_states.shape[1], key_states.shape[-1]
            self.slots[layer_idx] = key_states.new_empty(2, 1, heads, self.capacity, size)
        end = self.length + key_states.shape[-2]
        keys, values = self.slots[layer_idx]
        keys[:, :, self.length:end] = key_states
        values[:, :, self.length:end] = value_states
        return keys[:, :, :end], values[:, :, :end]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Committed slots."""
        return self.length

    def keep(self, rows: Integers) -> None:
        count = len(rows)
        if rows[-1] != count - 1:
            source = torch.from_numpy(rows.astype(np.int64)) + self.length
            for slots in self.slots.values():
                slots[..., self.length:self.length + count, :] = slots.index_select(-2, source.to(slots.device))
        self.length += count
