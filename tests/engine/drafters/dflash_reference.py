"""The block-diffusion drafter from its equations: no cache, one loop per head, attention written out."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import silu

Sight = tuple[int, bool]  # a layer's window (0 for none), and whether later slots are hidden


def normed(states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return weight * states / torch.sqrt(states.pow(2).mean(-1, keepdim=True) + epsilon)


def rotated_halves(states: Tensor, positions: Tensor, speeds: Tensor) -> Tensor:
    """Rotate states (rows, heads, size): the pair (i, i + size / 2) turns by position × speed."""
    angles = (positions[:, None].double() * speeds).float()[:, None]
    first, second = states.chunk(2, -1)
    return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)


def rotated_neighbours(states: Tensor, positions: Tensor, speeds: Tensor) -> Tensor:
    """Rotate states in the pairs (2 i, 2 i + 1)."""
    angles = (positions[:, None].double() * speeds).float()[:, None]
    first, second = states[..., 0::2], states[..., 1::2]
    return torch.stack([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()],
                       -1).flatten(-2)


def plain_speeds(theta: float, size: int) -> Tensor:
    """Return the rotary embedding's speeds in radians per position: (size / 2,) float64."""
    return theta ** (-torch.arange(size // 2).double() / (size // 2))


def visible(query: int, key: int, sight: Sight) -> bool:
    """Return whether a query sees a key, as in ``_attention_mask`` of z-lab's dflash 0.1.0."""
    window, causal = sight
    return window == 0 or query - key < window and (key <= query if causal else key - query < window)


def reference(weights: Mapping[str, Tensor], features: Tensor, block: Tensor, speeds: Tensor, epsilon: float,
              sights: Sequence[Sight]) -> Tensor:
    """Return the hidden states (slots, hidden size) of an embedded block after the features."""
    size = 2 * len(speeds)
    fused = normed(features @ weights["fc.weight"].T, weights["hidden_norm.weight"], epsilon)
    before, here = torch.arange(len(features)), len(features) + torch.arange(len(block))
    positions = torch.cat([before, here])
    hidden = block
    for layer, sight in enumerate(sights):
        part = {name.removeprefix(f"layers.{layer}.").removesuffix(".weight"): value for name, value in weights.items()
                if name.startswith(f"layers.{layer}.")}
        rows = normed(hidden, part["input_layernorm"], epsilon)
        sources = torch.cat([fused, rows])
        queries, keys, values = (
            (states @ part[f"self_attn.{name}_proj"].T).unflatten(-1, (-1, size))
            for states, name in ((rows, "q"), (sources, "k"), (sources, "v")))
        queries = rotated_halves(normed(queries, part["self_attn.q_norm"], epsilon), here, speeds)
        keys = rotated_halves(normed(keys, part["self_attn.k_norm"], epsilon), positions, speeds)
        unseen = torch.tensor([[not visible(query, key, sight) for key in positions.tolist()]
                               for query in here.tolist()])
        hidden = after_attention(part, hidden, attended(queries, keys, values, unseen), epsilon)
    return normed(hidden, weights["norm.weight"], epsilon)


def attended(queries: Tensor, keys: Tensor, values: Tensor, unseen: Tensor) -> Tensor:
    """Return grouped-query attention of states (rows, heads, size): (rows, heads × size)."""
    group, mixed = queries.shape[1] // keys.shape[1], []
    for head in range(queries.shape[1]):
        scores = queries[:, head] @ keys[:, head // group].T / queries.shape[-1]**0.5
        mixed.append(scores.masked_fill(unseen, -torch.inf).softmax(-1) @ values[:, head // group])
    return torch.cat(mixed, -1)


def after_attention(part: Mapping[str, Tensor], hidden: Tensor, mixed: Tensor, epsilon: float) -> Tensor:
    """Return a layer's output from its attention's result."""
    hidden = hidden + mixed @ part["self_attn.o_proj"].T
    rows = normed(hidden, part["post_attention_layernorm"], epsilon)
    inner = silu(rows @ part["mlp.gate_proj"].T) * (rows @ part["mlp.up_proj"].T)
    return hidden + inner @ part["mlp.down_proj"].T
