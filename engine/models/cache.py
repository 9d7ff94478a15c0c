"""KV caches that are allocated once, written in place, and compacted by the indices of the rows to keep."""

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PretrainedConfig

from engine.models.rows import PassRows
from engine.records import Integers


def cache_argument(model: nn.Module) -> str:
    """Return the name of the cache argument of a model's forward: it differs between transformers 5.23 and 5.24, and
    models without attention have a third one."""
    parameters = signature(model.forward).parameters
    names = ("cache", "past_key_values", "cache_params")
    return next((name for name in names if name in parameters), "past_key_values")


class ReusableText(NamedTuple):
    """The part of a run's text that later runs may reuse: token ids (n,), with the cache's slots and the features (n,
    taps × hidden size) at their positions."""

    token_ids: Integers
    slots: dict[int, dict[int, Tensor]]
    features: Tensor

    @property
    def nbytes(self) -> int:
        return self.features.nbytes + sum(rows.nbytes for tensors in self.slots.values() for rows in tensors.values())

    def copied(self) -> Self:
        slots = {layer: {number: rows.clone() for number, rows in tensors.items()}
                 for layer, tensors in self.slots.items()}
        return type(self)(self.token_ids, slots, self.features.clone())


NO_TEXT = ReusableText(np.zeros(0, np.int32), {}, torch.empty(0))


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
        # zeros, because a masked slot is still multiplied by 0, and NaN × 0 is NaN
        self.slots = like.new_zeros(config.num_hidden_layers, 2, 1, heads, capacity, size)
        self.length = 0
        # the same memory as bytes: on a CPU numpy moves rows in a third of torch's time
        self._bytes = self.slots.view(torch.uint8).flatten(0, 3).numpy() if self.slots.device.type == "cpu" else None

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[
            Tensor, Tensor]:
        """Write new rows (1, kv heads, rows, head size) behind the committed ones, and return the keys and values of
        all slots so far."""
        end = self.length + key_states.shape[-2]
        keys, values = self.slots[layer_idx]
        keys[:, :, self.length:end] = key_states
        values[:, :, self.length:end] = value_states
        return keys[:, :, :end], values[:, :, :end]

    def first_slots(self, length: int) -> dict[int, dict[int, Tensor]]:
        """Return a view of the first slots of all layers, as in ``ReusableText``."""
        return {0: {0: self.slots[..., :length, :]}}

    def load_prefix(self, slots: dict[int, dict[int, Tensor]], length: int) -> None:
        """Copy the first slots of a reusable text; the cache has to be empty."""
        self.slots[..., :length, :] = slots[0][0][..., :length, :]
        self.length = length

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def keep(self, rows: Integers, on_device: Tensor) -> None:
        """Keep these rows of the last pass, in this order: (n,) int32, on host and device. Nothing moves if they lie in
        place."""
        end = self.length + len(rows)
        if rows[-1] != len(rows) - 1:
            if self._bytes is not None:
                self._bytes[:, self.length:end] = self._bytes.take(rows + np.int64(self.length), 1)
            else:
                self.slots[..., self.length:end, :] = self.slots.index_select(-2, on_device + self.length)
        self.length = end


class LayeredCache(Cache):  # type: ignore[misc]  # see above
    """A cache of any architecture.

    Each attention layer's keys and values are tensors (1, heads, capacity, size), made in its first pass with that
    pass's sizes and device. Recurrent states are in transformers' own classes. Sliding windows drop nothing: a mask
    hides what a layer does not see. ``tree`` is set for a pass over a tree; recurrent layers then do not change their
    committed states, and append to ``replays`` what repeats them over chosen rows (see ``recurrent.TreeMixer``).
    """

    def __init__(self, capacity: int, config: PretrainedConfig | None = None) -> None:
        super().__init__(layers=DynamicCache(config=config).layers if config is not None else [])
        self.capacity, self.length = capacity, 0
        self.slots: dict[int, dict[int, Tensor]] = {}
        self.tree: PassRows | None = None
        self.replays: list[Callable[[Tensor], None]] = []

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[
            Tensor, Tensor]:
        """Write new rows (1, heads, rows, size) behind the committed ones, and return those of all slots so far."""
        return self._written(layer_idx, 0, key_states), self._written(layer_idx, 1, value_states)

    def update_indexer(self, indexer_key_states: Tensor, layer_idx: int) -> Tensor:
        """Write the keys (1, rows, size) of a sparse-attention indexer; see ``update``."""
        return self._written(layer_idx, 2, indexer_key_states)

    def _written(self, layer: int, number: int, rows: Tensor) -> Tensor:
        tensors = self.slots.setdefault(layer, {})
        if number not in tensors:
            tensors[number] = rows.new_zeros(*rows.shape[:-2], self.capacity, rows.shape[-1])
        end = self.length + rows.shape[-2]
        tensors[number][..., self.length:end, :] = rows
        return tensors[number][..., :end, :]

    def first_slots(self, length: int) -> dict[int, dict[int, Tensor]]:
        """Return a view of the first slots of each layer, as in ``ReusableText``."""
        return {layer: {number: slots[..., :length, :] for number, slots in tensors.items()}
                for layer, tensors in self.slots.items()}

    def load_prefix(self, slots: dict[int, dict[int, Tensor]], length: int) -> None:
        """Copy the first slots of a reusable text; the cache has to be empty."""
        for layer, tensors in slots.items():
            for number, rows in tensors.items():
                self._written(layer, number, rows[..., :length, :])
        self.length = length

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return how many slots the rows of a pass can see, and the index of the first."""
        return self.length + query_length, 0

    @property
    def is_sliding(self) -> list[bool]:
        """False for every layer: a sliding window is a mask here."""
        return [False] * len(self.layers)

    def keep(self, rows: Integers, on_device: Tensor) -> None:
        """Keep these rows of the last pass, in this order: (n,) int32, on the host and on the device. Recurrent layers
        repeat their steps over them."""
        count = len(rows)
        if rows[-1] != count - 1:
            source = on_device + self.length
            for tensors in self.slots.values():
                for slots in tensors.values():
                    slots[..., self.length:self.length + count, :] = slots.index_select(-2, source.to(slots.device))
        for replay in self.replays:
            replay(on_device)
        self.length += count
