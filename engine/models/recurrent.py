"""Trees over recurrent layers: gated delta rules, state spaces, short convolutions.

A recurrent layer has one committed state per text. In a tree's pass, the layer's one-token step runs once per depth for
all rows of that depth, each from its parent's state; only one depth's states exist at a time. A commit repeats the step
over the kept rows from their stored inputs, so that the state is plain decoding's.

``DeltaMixer`` computes gated delta rules without that loop. It is transformers' rule for a chunk of text, with a row's
ancestors in place of all earlier rows. A commit is then one product over the kept rows.
"""

import sys
from copy import copy
from functools import cache, partial
from inspect import getsource
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from engine.models.cache import LayeredCache
from engine.models.rows import PassRows

STATES = ("conv_states", "recurrent_states")
DELTA = frozenset({"Qwen3NextGatedDeltaNet", "Qwen3_5GatedDeltaNet", "Qwen3_5MoeGatedDeltaNet"})
STATE_UPDATES = ("update_conv_state", "update_recurrent_state")  # methods of transformers' cache


class TreeMixer(nn.Module):
    """Wraps a recurrent layer of transformers so that it also takes the rows of a tree."""

    def __init__(self, mixer: Any) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        cache = next((value for value in (*args, *kwargs.values()) if isinstance(value, LayeredCache)), None)
        if cache is None or cache.tree is None:
            return self.mixer(*args, **kwargs)
        return self._in_tree(cache, cache.tree, args, kwargs)

    def _in_tree(self, cache: LayeredCache, tree: PassRows, args: Any, kwargs: Any) -> Any:
        cache.replays.append(partial(self._replay, cache, len(tree.parents), args, kwargs))
        layer, rows = self.mixer.layer_idx, len(tree.parents)
        committed = cache.layers[layer]
        outputs: list[Any] = []
        cache.layers[layer] = stepped = copy_states(committed, tree.parents[:1] * 0)
        numbers = torch.zeros_like(tree.parents, dtype=torch.int64)  # each row's index within its depth
        try:
            for depth, level in enumerate(tree.levels):
                if depth:
                    cache.layers[layer] = stepped = copy_states(stepped, numbers[tree.parents[level]])
                outputs.append(self.mixer(*pick_rows(args, level, rows), **pick_rows(kwargs, level, rows)))
                numbers[level] = torch.arange(len(level), device=level.device)
        finally:
            cache.layers[layer] = committed
        order = torch.cat(tree.levels).argsort()
        if isinstance(outputs[0], Tensor):
            return torch.cat(outputs)[order].transpose(0, 1)
        return (torch.cat([output[0] for output in outputs])[order].transpose(0, 1), *outputs[0][1:])

    def _replay(self, cache: LayeredCache, count: int, args: Any, kwargs: Any, rows: Tensor) -> None:
        for index in rows.split(1):
            self.mixer(*pick_rows(args, index, count), **pick_rows(kwargs, index, count))


class DeltaMixer(TreeMixer):
    """A gated delta rule of Qwen3-Next and its relatives.

    S (key size, value size) is a head's committed state, Γᵢ the decay from it to row i, Γᵢⱼ the decay from row j to i.
    The updates uᵢ = βᵢ (vᵢ − kᵢᵀ (Γᵢ S + Σⱼ Γᵢⱼ kⱼ uⱼ)), over the ancestors j of i, are a triangular system. The state
    behind row i is Γᵢ S + Σⱼ Γᵢⱼ kⱼ uⱼ over its ancestors and itself; its output is qᵢᵀ times that.
    """

    def _in_tree(self, cache: LayeredCache, tree: PassRows, args: Any, kwargs: Any) -> Any:
        assert tree.visible is not None
        mixer, state_cache = self.mixer, cache.layers[self.mixer.layer_idx]
        hidden = kwargs.get("hidden_states", args[0] if args else None)
        mixed, gate, beta, dt = self._projected(hidden)
        above = columns_above(state_cache.conv_states[0].shape[-1], tree)
        columns = torch.cat([state_cache.conv_states[0][0].T, mixed])
        query, key, value = self._convolved(columns, above)
        dtype = key.dtype
        state = state_cache.recurrent_states[0][0].to(dtype)
        log_decays = -mixer.A_log.to(dtype).exp() * softplus(dt.to(dtype) + mixer.dt_bias)  # (rows, heads)
        log_decays = (tree.visible.to(dtype) @ log_decays).T  # from the committed state to each row, (heads, rows)
        decay_between = (log_decays[:, :, None] - log_decays[:, None]).masked_fill_(~tree.visible, -torch.inf).exp_()
        beta = beta.sigmoid().to(dtype).T[..., None]
        decay_from_state = log_decays.exp()[..., None]
        right_side = beta * (value - decay_from_state * (key @ state))
        updates = torch.linalg.solve_triangular(
            beta * decay_between * (key @ key.mT), right_side, upper=False, unitriangular=True)
        output = decay_from_state * (query @ state) + decay_between * (query @ key.mT) @ updates
        cache.replays.append(partial(self._commit, state_cache, (columns, above), (log_decays, key, updates)))
        output = mixer.norm(output.transpose(0, 1).flatten(0, 1).to(hidden.dtype), gate.reshape(-1, gate.shape[-1]))
        return mixer.out_proj(output.view(1, len(mixed), -1))

    def _projected(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Project hidden states (1, rows, hidden size) to queries, keys and values side by side (rows, channels), the
        gate (rows, heads, value size), β before its sigmoid, and Δt before its softplus (rows, heads)."""
        mixer = self.mixer
        if hasattr(mixer, "in_proj_qkv"):
            gate = mixer.in_proj_z(hidden)[0].unflatten(-1, (-1, mixer.head_v_dim))
            return mixer.in_proj_qkv(hidden)[0], gate, mixer.in_proj_b(hidden)[0], mixer.in_proj_a(hidden)[0]
        *heads, gate, beta, dt = mixer.fix_query_key_value_ordering(
            mixer.in_proj_qkvz(hidden), mixer.in_proj_ba(hidden))
        return torch.cat([states[0].flatten(1) for states in heads], -1), gate[0], beta[0], dt[0]

    def _convolved(self, columns: Tensor, above: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Convolve the columns to queries, keys and values (heads, rows, size), in float32 or the columns' float64."""
        mixer, dtype = self.mixer, torch.promote_types(columns.dtype, torch.float32)
        taps = mixer.conv1d.weight[:, 0].T.to(dtype)
        windows = columns[above[:, -len(taps):]].to(dtype)
        mixed = silu((windows * taps).sum(1).to(columns.dtype)).to(dtype)
        query, key, value = mixed.split([mixer.key_dim, mixer.key_dim, mixer.value_dim], -1)
        groups = mixer.num_v_heads // mixer.num_k_heads
        heads = torch.stack([query, key]).unflatten(-1, (-1, mixer.head_k_dim))
        heads *= torch.rsqrt((heads * heads).sum(-1, keepdim=True) + 1e-6)  # to length 1
        query, key = heads.repeat_interleave(groups, 2).transpose(1, 2)
        return query * mixer.head_k_dim ** -0.5, key, value.unflatten(-1, (-1, mixer.head_v_dim)).transpose(0, 1)

    @staticmethod
    def _commit(state_cache: Any, convolution: tuple[Tensor, Tensor], rule: tuple[Tensor, ...], rows: Tensor) -> None:
        """Replace the committed states by those after a path's last row."""
        (columns, above), (log_decays, key, updates) = convolution, rule
        kept = rows.to(log_decays.device)
        log_decays = log_decays[:, kept]
        decay_to_end = (log_decays[:, -1:] - log_decays).exp()[..., None]
        state = state_cache.recurrent_states[0]
        state.mul_(log_decays[:, -1].exp()[:, None, None]).add_((key[:, kept] * decay_to_end).mT @ updates[:, kept])
        state_cache.conv_states[0].copy_(columns[above[kept[-1]]].T)


def columns_above(window: int, tree: PassRows) -> Tensor:
    """Return the indices of each row's last ``window`` columns, its own the last, (rows, window) int64. The columns of
    the committed window come first, then those of the rows."""
    numbers = torch.arange(window + len(tree.parents), device=tree.parents.device)
    before = torch.cat([numbers[:window] - 1, tree.parents + window]).clamp_(min=0)
    before[window] = window - 1
    above = [numbers[window:]]
    for _ in range(window - 1):
        above.insert(0, before[above[0]])
    return torch.stack(above, -1)


def pick_rows(values: Any, rows: Tensor, count: int) -> Any:
    """Cut the arguments that have ``count`` rows, (1, rows, …), to a batch of these rows: (n, 1, …)."""
    if isinstance(values, dict):
        return {name: pick_rows(value, rows, count) for name, value in values.items()}
    if isinstance(values, tuple):
        return tuple(pick_rows(value, rows, count) for value in values)
    if isinstance(values, Tensor) and values.ndim > 1 and values.shape[:2] == (1, count):
        return values[0, rows.to(values.device), None]
    return values


def copy_states(layer: Any, rows: Tensor) -> Any:
    """Copy a recurrent layer's states, taking entries ``rows`` (n,) of the batch."""
    other = copy(layer)
    for kind in STATES:
        setattr(other, kind, {number: state if state is None else state.index_select(0, rows.to(state.device))
                              for number, state in getattr(layer, kind).items()})
    return other


def caches_recurrent_state(model: type[nn.Module]) -> bool:
    """Return whether a class of models writes its recurrent states into transformers' cache."""
    return any(name in getsource(sys.modules[model.__module__]) for name in STATE_UPDATES)


@cache
def is_recurrent(layer: Any) -> bool:
    """Return whether a class of layers writes a recurrent state into transformers' cache."""
    return any(name in getsource(layer) for name in STATE_UPDATES)


def wrap_recurrent_layers(model: nn.Module) -> None:
    """Wrap all recurrent layers of a model so that they take the rows of a tree."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            kind: Any = type(child)
            if hasattr(child, "layer_idx") and not isinstance(parent, TreeMixer) and is_recurrent(kind):
                mixer = DeltaMixer if kind.__name__ in DELTA else TreeMixer
                parent.register_module(name, mixer(child))
