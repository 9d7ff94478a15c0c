"""Decoder layers with as few dispatches as possible.

A layer of a small model waits for the interpreter, not for arithmetic: transformers' code launches about sixty kernels
on a GPU, this fifteen. Target and drafters share this code; ``tests/engine/models/test_passes.py`` compares it with
transformers. The layout of weights in memory: ``packed_linear.py``.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from engine.models.packed_linear import PackedLinear, biases, join_projections, join_weights

Rotation = tuple[Tensor, Tensor]  # cosines and signed sines, (rows, 1, head size)


class Norm:
    """Root mean square norm over the last dimension with gains (…, size), in float32: √size × x / ‖x‖ × gain.

    On a GPU torch has one kernel for it; on a CPU torch's ``rms_norm`` makes eight calls, this six. ‖x‖² is summed in
    float64, so that ``compiled.py``, which sums in another order, gives the same bits.
    """

    def __init__(self, gain: Tensor, epsilon: float) -> None:
        size = gain.shape[-1]
        self.gain, self.epsilon = gain, epsilon
        self.scale, self.offset = gain.detach().float() * sqrt(size), size * epsilon
        self._epsilon_length = torch.tensor([sqrt(self.offset)], dtype=torch.float64) if gain.is_cpu else None

    def __call__(self, states: Tensor) -> Tensor:
        """Return the normed states (…, size), in their dtype."""
        if self._epsilon_length is None:
            gain = self.gain
            return rms_norm(states, gain.shape[-1:], None, self.epsilon) * gain if gain.ndim > 1 else rms_norm(
                states, gain.shape, gain, self.epsilon)
        length = torch.linalg.vector_norm(states, 2, -1, True, dtype=torch.float64).hypot_(self._epsilon_length)
        return (states.div(length.float()) * self.scale).to(states.dtype)


class Rotations:
    """Rotary factors by position, from a table that doubles in size as texts grow.

    The first half of the sines is negated, so that ``apply_rotary`` need not negate half of each state.
    """

    def __init__(self, rotary: nn.Module, like: Tensor, limit: int) -> None:
        self.rotary, self.like, self.limit = rotary, like, limit
        self._cosines = self._sines = like.new_empty(0)

    def at(self, positions: Tensor, end: int) -> Rotation:
        """Return the factors of integer positions (rows,), all below ``end``."""
        self._reach(end)
        return self._cosines.index_select(0, positions), self._sines.index_select(0, positions)

    def span(self, start: int, end: int) -> Rotation:
        """Return the factors (positions, 1, head size) of the positions from ``start`` to ``end``, exclusive."""
        self._reach(end)
        return self._cosines[start:end], self._sines[start:end]

    def _reach(self, end: int) -> None:
        if end <= len(self._cosines):
            return
        positions = torch.arange(max(end, min(self.limit, 1 << end.bit_length())), device=self.like.device)
        cosines, sines = (factor[0] for factor in self.rotary(self.like, positions[None]))
        half = sines.shape[-1] // 2
        self._cosines = cosines[:, None]
        self._sines = torch.cat([-sines[:, :half], sines[:, half:]], -1)[:, None]


def append_first_half(states: Tensor) -> Tensor:
    """Append to states (…, size) their first half: (…, size + size ÷ 2)."""
    return torch.cat([states, states.narrow(-1, 0, states.shape[-1] // 2)], -1)


def apply_rotary(states: Tensor, rotation: Rotation, out: Tensor | None = None) -> Tensor:
    """Apply rotary position embedding to states (…, rows, heads, head size). They are passed with their first half
    appended, or twice, so that the states with swapped halves are a view."""
    cosines, sines = rotation
    size = cosines.shape[-1]
    swapped = states.narrow(-1, size // 2, size)
    return torch.addcmul(states.narrow(-1, 0, size) * cosines, swapped, sines, out=out)


class GatedMlp:
    """An MLP with SiLU gating."""

    def __init__(self, mlp: Any) -> None:
        self.gate_up = PackedLinear(join_projections([mlp.gate_proj, mlp.up_proj]))
        self.down = PackedLinear(join_projections([mlp.down_proj]))

    def __call__(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """Run the MLP on inputs (rows, hidden size); the output has their shape and is added to ``residual``."""
        gate, up = self.gate_up(inputs).chunk(2, -1)
        return self.down(silu(gate).mul_(up), residual)

    def linears(self) -> list[PackedLinear]:
        return [self.gate_up, self.down]


class Experts:
    """A mixture of experts: the model's own module, whose rows transformers groups by expert."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """Run the experts on inputs (rows, hidden size); the output has their shape and is added to ``residual``."""
        output: Tensor = self.module(inputs[None])[0]
        return output if residual is None else output.add_(residual)

    def linears(self) -> list[PackedLinear]:
        return []


class AttentionContext(NamedTuple):
    """The keys and values that one text's ``rows`` of a pass attend to in a layer, and their mask.

    ``slots`` (2, kv heads, keys, head size): the keys and values of earlier positions, then room for those of these
    rows, then ``spare`` slots. The mask (1, 1, query heads per kv row × rows, keys) hides the spare slots. Attention is
    computed in ``dtype``.
    """

    rows: int
    slots: Tensor
    mask: Tensor | None
    spare: int = 0
    dtype: torch.dtype | None = None


class Layer:
    """Attention and MLP, or experts, of one pre-norm decoder layer with grouped queries and rotary positions."""

    def __init__(self, layer: Any, head_size: int) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        inputs = [attention.q_proj, attention.k_proj, attention.v_proj]
        self.size = head_size
        self.kv_heads = attention.k_proj.out_features // head_size
        self.query_heads = attention.q_proj.out_features // head_size
        self.inputs = PackedLinear(join_projections(inputs), biases(inputs))
        self.out = PackedLinear(join_projections([attention.o_proj]), attention.o_proj.bias)
        self.mlp = GatedMlp(mlp) if hasattr(mlp, "gate_proj") else Experts(mlp)
        self.first_norm, self.second_norm = norm_of(layer.input_layernorm), norm_of(layer.post_attention_layernorm)
        self.head_norm: Norm | None = None
        if hasattr(attention, "q_norm"):  # it gives each head twice; see ``apply_rotary``
            gains = torch.cat([attention.q_norm.weight.data.expand(self.query_heads, -1),
                               attention.k_norm.weight.data.expand(self.kv_heads, -1)])
            self.head_norm = Norm(gains[:, None].repeat(1, 2, 1), attention.q_norm.variance_epsilon)

    def linears(self) -> list[PackedLinear]:
        return [self.inputs, self.out, *self.mlp.linears()]

    def run(self, hidden: Tensor, rotation: Rotation, contexts: Sequence[AttentionContext]) -> Tensor:
        """Run the layer on hidden states (rows, hidden size), the rows of all texts one after another. Each text
        attends to its own context; everything else is one product for all rows."""
        hidden = self.attention(self.first_norm(hidden), rotation, contexts, hidden)
        return self.mlp(self.second_norm(hidden), hidden)

    def attention(self, inputs: Tensor, rotation: Rotation, contexts: Sequence[AttentionContext],
                  residual: Tensor | None = None) -> Tensor:
        """Attend with normed inputs (rows, hidden size); the output has their shape and is added to ``residual``."""
        states = self.inputs(inputs).view(len(inputs), -1, self.size)
        heads = states.narrow(1, 0, self.query_heads + self.kv_heads)
        doubled = append_first_half(heads) if self.head_norm is None else self.head_norm(heads[:, :, None]).flatten(2)
        apply_rotary(doubled, rotation, out=heads)  # beside the values, so that one copy moves keys and values
        if len(contexts) == 1:
            return self.out(self._attended(states, contexts[0]), residual)
        texts = states.split([context.rows for context in contexts])
        mixed = [self._attended(*text) for text in zip(texts, contexts, strict=True)]
        return self.out(torch.cat(mixed), residual)

    def _attended(self, states: Tensor, context: AttentionContext) -> Tensor:
        """Attend with one text's queries, keys and values (rows, heads, head size): (rows, query heads × head size)."""
        slots, rows = context.slots, context.rows
        first, dtype = slots.shape[2] - context.spare - rows, context.dtype or slots.dtype
        query, new = states.split([self.query_heads, 2 * self.kv_heads], 1)
        slots.narrow(2, first, rows).copy_(new.view(rows, 2, -1, self.size).permute(1, 2, 0, 3))
        query = query.view(rows, self.kv_heads, -1, self.size).permute(1, 2, 0, 3)
        keys, values = slots.to(dtype).unsqueeze(1).unbind()
        if query.is_cpu:
            query = query.to(dtype, memory_format=torch.contiguous_format).flatten(1, 2).unsqueeze(0)
        else:
            keys, values = (one.transpose(0, 1).expand(-1, query.shape[1], -1, -1) for one in (keys, values))
        mixed = scaled_dot_product_attention(query, keys, values, attn_mask=context.mask)
        mixed = mixed.view(self.kv_heads, -1, rows, self.size).permute(2, 0, 1, 3)
        return mixed.to(states.dtype, memory_format=torch.contiguous_format).reshape(rows, -1)


class KeysValues:
    """Projects the same inputs to keys and values for several layers of one shape, in one product."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        first = layers[0]
        self.shape = (len(layers), 2 * first.kv_heads, first.size)
        outputs = first.query_heads * first.size
        biases_ = [layer.inputs.bias[outputs:] for layer in layers if layer.inputs.bias is not None]
        self.product = PackedLinear(join_weights([layer.inputs.weight[outputs:] for layer in layers]),
                                    torch.cat(biases_) if biases_ else None)
        norms = [layer.head_norm for layer in layers if layer.head_norm is not None]
        self.key_norm = Norm(torch.stack([norm.gain[first.query_heads:, 0] for norm in norms])[:, None],
                             norms[0].epsilon) if norms else None

    def project(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys before rotary embedding, and values, of normed inputs (rows, hidden size): each (layers, rows, kv
        heads, head size)."""
        keys, values = self.product(inputs).view(len(inputs), *self.shape).transpose(0, 1).chunk(2, 2)
        return keys if self.key_norm is None else self.key_norm(keys), values


def norm_of(module: Any) -> Norm:
    """Convert a norm of transformers."""
    return Norm(module.weight.data, module.variance_epsilon)


def query_heads_per_kv_row(config: Any, like: Tensor) -> int:
    """Return how many query heads share one pass over a key-value head: on a CPU all of its group, so that each key is
    read once; on a GPU one, to avoid copying queries."""
    return config.num_attention_heads // config.num_key_value_heads if like.device.type == "cpu" else 1


def additive_mask(visible: Tensor, committed: int, like: Tensor, groups: int = 1, spare: int = 0) -> Tensor:
    """Make the additive mask of a pass: (1, 1, groups × rows, committed + drafted + spare), 0 or −inf, like ``like``.

    ``visible`` is (rows, drafted) bool. All rows see the ``committed`` positions before them, none the ``spare`` slots
    behind them; ``groups``: see ``query_heads_per_kv_row``.
    """
    rows, drafted = visible.shape
    mask = like.new_zeros(groups, rows, committed + drafted + spare)
    mask[:, :, committed:committed + drafted].masked_fill_(~visible, -torch.inf)
    if spare:
        mask[:, :, -spare:] = -torch.inf
    return mask.flatten(0, 1)[None, None]


def causal_mask(rows: int, committed: int, like: Tensor) -> Tensor:
    """Make the additive mask (1, 1, rows, committed + rows) of a chain of tokens after ``committed`` ones."""
    return additive_mask(torch.ones(rows, rows, dtype=torch.bool, device=like.device).tril(), committed, like)
