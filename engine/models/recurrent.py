"""Trees over recurrent layers: gated delta rules, state spaces, short convolutions.

A recurrent layer has one committed state per text. In a tree's pass its own step for one token runs once per depth, for
all rows of that depth at once, each from its parent's state; only one depth's states exist at a time. A commit repeats
the step over the kept rows, from their stored inputs, so that the state is the one that plain decoding would have.
"""

from __future__ import annotations

import sys
from copy import copy
from inspect import getsource
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.cache import Branches, LayeredCache
from engine.records import Integers

STATES = ("conv_states", "recurrent_states")
STEPS = ("update_conv_state", "update_recurrent_state")  # the calls by which a layer writes its state


class TreeMixer(nn.Module):
    """A recurrent layer of transformers that also takes the rows of a tree."""

    def __init__(self, mixer: Any) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, *given: Any, **named: Any) -> Any:
        """What the layer returns for hidden states (1, rows, hidden size)."""
        cache = next((value for value in (*given, *named.values()) if isinstance(value, LayeredCache)), None)
        if cache is None or cache.tree is None:
            return self.mixer(*given, **named)
        cache.replays.append(lambda rows: self._replay(cache, rows, given, named))
        return self._by_depth(cache, cache.tree, given, named)

    def _by_depth(self, cache: LayeredCache, tree: Branches, given: Any, named: Any) -> Any:
        number, rows = self.mixer.layer_idx, len(tree.parents)
        committed = cache.layers[number]
        outputs: list[Any] = []
        cache.layers[number] = stepped = copies(committed, tree.parents[:1] * 0)
        places = torch.zeros_like(tree.parents)  # of each row among those of its depth
        try:
            for depth, level in enumerate(tree.levels):
                if depth:
                    cache.layers[number] = stepped = copies(stepped, places[tree.parents[level]])
                outputs.append(self.mixer(*picked(given, level, rows), **picked(named, level, rows)))
                places[level] = torch.arange(len(level), device=level.device)
        finally:
            cache.layers[number] = committed
        order = torch.cat(tree.levels).argsort()
        if isinstance(outputs[0], Tensor):
            return torch.cat(outputs)[order].transpose(0, 1)
        return (torch.cat([output[0] for output in outputs])[order].transpose(0, 1), *outputs[0][1:])

    def _replay(self, cache: LayeredCache, rows: Integers, given: Any, named: Any) -> None:
        count = len(cache.tree.parents) if cache.tree else 0
        for row in rows:
            index = torch.tensor([row])
            self.mixer(*picked(given, index, count), **picked(named, index, count))


def picked(values: Any, rows: Tensor, count: int) -> Any:
    """Arguments with those that have ``count`` rows, (1, rows, …), cut to these rows, one to a batch: (n, 1, …)."""
    if isinstance(values, dict):
        return {name: picked(value, rows, count) for name, value in values.items()}
    if isinstance(values, tuple):
        return tuple(picked(value, rows, count) for value in values)
    if isinstance(values, Tensor) and values.ndim > 1 and values.shape[:2] == (1, count):
        return values[0, rows.to(values.device), None]
    return values


def copies(layer: Any, rows: Tensor) -> Any:
    """A recurrent layer's states, with one of a batch per row (n,) of another's."""
    other = copy(layer)
    for kind in STATES:
        setattr(other, kind, {number: state if state is None else state.index_select(0, rows.to(state.device))
                              for number, state in getattr(layer, kind).items()})
    return other


def takes_states(model: type[nn.Module]) -> bool:
    """Whether a class of models writes its recurrent states into transformers' cache."""
    return any(step in getsource(sys.modules[model.__module__]) for step in STEPS)


def take_trees(model: nn.Module) -> None:
    """Let all recurrent layers of a model take the rows of a tree."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            steps = hasattr(child, "layer_idx") and any(step in getsource(type(child)) for step in STEPS)
            if steps and not isinstance(parent, TreeMixer):
                parent.register_module(name, TreeMixer(child))
