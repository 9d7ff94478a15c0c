"""Answers many prompts at once on a CPU, with a Llama, greedily or by sampling.

transformers' own ``generate`` takes three times as long here: it reorders every weight anew in each product, and its
attention is slow if keys are stored transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, pad, rms_norm, scaled_dot_product_attention, silu

from engine.models.packed_linear import PackedLinear

ROOM_STEP = 64  # positions by which the cache grows
MAX_POSITIONS = 2048
PROMPTS_PER_PASS = 32
MAX_SAMPLED_TOKENS = 512  # sampling draws from the likeliest
MIN_ACTIVE_FRACTION = 0.8  # of the rows: if fewer are active, the finished ones are removed
LOOP_CHECK_INTERVAL = 24  # tokens between two checks for loops


@dataclass(frozen=True)
class AnswerSampling:
    """How a token is drawn: temperature 0 is greedy; ``top_p`` cuts the tail."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


GREEDY = AnswerSampling()


@dataclass(frozen=True)
class AnswerText:
    """An answer's token ids with the end token, and whether it reached that. ``looped``: it was stopped because it
    repeated itself, and the repetition is cut off."""

    tokens: tuple[int, ...]
    ended: bool
    looped: bool


class Cache:
    """Keys (rows, heads, size, room) and values (rows, heads, room, size) of every layer."""

    def __init__(self, model: Any, rows: int, room: int) -> None:
        heads, size = model.config.num_key_value_heads, model.config.head_dim
        like, layers = model.model.embed_tokens.weight, range(model.config.num_hidden_layers)
        self.keys = [like.new_zeros(rows, heads, size, room) for _ in layers]
        self.values = [like.new_zeros(rows, heads, room, size) for _ in layers]

    @property
    def room(self) -> int:
        """How many positions a row can hold."""
        return int(self.keys[0].shape[-1])

    def extend(self) -> None:
        """Make room for more positions."""
        self.keys = [pad(key, (0, ROOM_STEP)) for key in self.keys]
        self.values = [pad(value, (0, 0, 0, ROOM_STEP)) for value in self.values]

    def keep(self, rows: Tensor) -> None:
        """Keep only these rows."""
        self.keys, self.values = ([part[rows] for part in side] for side in (self.keys, self.values))


class BatchDecoder:
    """The passes of a Llama over many rows of one token each, weights laid out once."""

    def __init__(self, model: Any) -> None:
        self.model, config = model, model.config
        self.heads, self.kv_heads, self.size = (
            config.num_attention_heads, config.num_key_value_heads, config.head_dim)
        self.table = model.model.embed_tokens.weight.detach()
        self.layers = [_Layer(layer) for layer in model.model.layers]
        self.head = PackedLinear(model.lm_head.weight.detach())
        cosines, sines = model.model.rotary_emb(self.table, torch.arange(MAX_POSITIONS)[None])
        self.cosines, self.sines = cosines[0].to(self.table.dtype), sines[0].to(self.table.dtype)

    def read(self, tokens: Tensor, lengths: Tensor, cache: Cache, first: int) -> Tensor:
        """Return the logits after prompts (rows, longest), padded at their ends; their keys and values go to the
        cache's rows from ``first``."""
        rows, longest = tokens.shape
        cache_rows = slice(first, first + rows)
        cosines, sines = (table[:longest].repeat(rows, 1)[:, None] for table in (self.cosines, self.sines))
        states = embedding(tokens, self.table).flatten(0, 1)
        for layer, keys, values in zip(self.layers, cache.keys, cache.values, strict=True):
            parts = self._projected(layer, states, cosines, sines)
            query, key, value = (part.unflatten(0, (rows, longest)).transpose(1, 2) for part in parts)
            keys[cache_rows, :, :, :longest], values[cache_rows, :, :longest] = key.transpose(2, 3), value
            mixed = scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
            states = layer.output(states, mixed.transpose(1, 2).reshape(rows * longest, -1))
        last = states.unflatten(0, (rows, longest))[torch.arange(rows), lengths - 1]
        return self._logits(last)

    def step(self, tokens: Tensor, positions: Tensor, cache: Cache) -> Tensor:
        """Return the logits (rows, vocabulary) after one more token in each row; tokens and positions (rows,) int64."""
        rows, all_rows = len(tokens), torch.arange(len(tokens))
        cosines, sines = self.cosines[positions][:, None], self.sines[positions][:, None]
        far = torch.arange(cache.room) > positions[:, None]
        mask = self.table.new_zeros(rows, 1, 1, cache.room).masked_fill_(far[:, None, None], -torch.inf)
        states = embedding(tokens, self.table)
        for layer, keys, values in zip(self.layers, cache.keys, cache.values, strict=True):
            query, key, value = self._projected(layer, states, cosines, sines)
            keys[all_rows, :, :, positions], values[all_rows, :, positions] = key, value
            query = query.reshape(rows, self.kv_heads, -1, self.size) * self.size ** -0.5
            shares = torch.matmul(query, keys).add_(mask).softmax(-1)
            states = layer.output(states, torch.matmul(shares, values).view(rows, -1))
        return self._logits(states)

    def _projected(self, layer: _Layer, states: Tensor, cosines: Tensor, sines: Tensor) -> tuple[Tensor, ...]:
        """Return queries, keys and values (rows, heads, size), the first two rotated by their positions."""
        parts = layer.inputs(layer.first(states)).unflatten(-1, (-1, self.size))
        both, half = parts[:, :self.heads + self.kv_heads], self.size // 2
        swapped = torch.cat([-both[..., half:], both[..., :half]], -1)
        rotated = torch.addcmul(both * cosines, swapped, sines)
        return rotated[:, :self.heads], rotated[:, self.heads:], parts[:, self.heads + self.kv_heads:]

    def _logits(self, states: Tensor) -> Tensor:
        return self.head(apply_norm(states, self.model.model.norm))


class _Layer:
    """The products and norms of one layer."""

    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.inputs = _join_projections(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out = PackedLinear(attention.o_proj.weight.detach())
        self.down = PackedLinear(mlp.down_proj.weight.detach())
        self.gate_up = _join_projections(mlp.gate_proj, mlp.up_proj)
        self.norms = layer.input_layernorm, layer.post_attention_layernorm

    def first(self, states: Tensor) -> Tensor:
        return apply_norm(states, self.norms[0])

    def output(self, states: Tensor, mixed: Tensor) -> Tensor:
        """Return the layer's output (rows, hidden size), from its input states and its attention's output."""
        states = states + self.out(mixed)
        gate, up = self.gate_up(apply_norm(states, self.norms[1])).chunk(2, -1)
        return states + self.down(silu(gate).mul_(up))


def _join_projections(*projections: Any) -> PackedLinear:
    return PackedLinear(torch.cat([projection.weight.detach() for projection in projections]))


def apply_norm(states: Tensor, norm: Any) -> Tensor:
    """Return the root mean square norm of states (…, size), in float32 as in the model, then in their dtype."""
    scaled = rms_norm(states.float(), states.shape[-1:], None, norm.variance_epsilon)
    weighted: Tensor = scaled.to(states.dtype) * norm.weight.detach()
    return weighted


def draw_tokens(logits: Tensor, choice: AnswerSampling, generator: torch.Generator) -> Tensor:
    """Choose a token for each row of logits (rows, vocabulary): (rows,) int64."""
    if choice.temperature == 0:
        return logits.argmax(-1)
    top = logits.float().div_(choice.temperature).topk(min(MAX_SAMPLED_TOKENS, logits.shape[-1]), -1)
    shares = top.values.softmax(-1)
    shares = shares.where(shares.cumsum(-1) - shares < choice.top_p, 0.0)
    return top.indices.gather(-1, torch.multinomial(shares, 1, generator=generator))[:, 0]


def loop_length(tokens: Sequence[int]) -> int:
    """Return how many tokens at the end of a text only repeat what precedes them: all after the first occurrence of a
    sequence that occurs three times in a row, or of a short one that occurs four times; 0 without repetition."""
    for period in range(1, 49):
        span = max((4 if period < 8 else 3) * period, 24)
        if len(tokens) >= span and tokens[-span:-period] == tokens[period - span:]:
            return span - period
    return 0


@torch.inference_mode()
def write_answers(decoder: BatchDecoder, prompts: Sequence[Sequence[int]], longest: int, end_id: int,
            choice: AnswerSampling = GREEDY) -> list[AnswerText]:
    """Return the answers to the prompts, each up to its end, a loop, or ``longest`` tokens."""
    batch = _Batch(decoder, prompts)
    generator = torch.Generator().manual_seed(choice.seed)
    tokens = draw_tokens(batch.logits, choice, generator)
    for count in range(1, longest + 1):
        batch.append(tokens.tolist(), end_id, check_loops=count % LOOP_CHECK_INTERVAL == 0)
        if count == longest or not batch.active.any():
            break
        tokens = draw_tokens(batch.next(tokens), choice, generator)
    return [AnswerText(tuple(text[:len(text) - loop_length(text)] if row in batch.looped else text), row in batch.ended,
                    row in batch.looped) for row, text in enumerate(batch.texts)]


class _Batch:
    """The active rows: their texts, positions and cache."""

    def __init__(self, decoder: BatchDecoder, prompts: Sequence[Sequence[int]]) -> None:
        self.decoder = decoder
        self.positions = torch.tensor([len(prompt) for prompt in prompts])
        self.texts: list[list[int]] = [[] for _ in prompts]
        self.ended, self.looped = set[int](), set[int]()
        self.rows, self.active = torch.arange(len(prompts)), torch.ones(len(prompts), dtype=torch.bool)
        tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(prompt) for prompt in prompts], batch_first=True)
        self.cache = Cache(decoder.model, len(prompts), -(-(tokens.shape[1] + 1) // ROOM_STEP) * ROOM_STEP)
        parts = range(0, len(prompts), PROMPTS_PER_PASS)
        self.logits = torch.cat([decoder.read(tokens[part:part + PROMPTS_PER_PASS],
                                              self.positions[part:part + PROMPTS_PER_PASS], self.cache, part)
                                 for part in parts])

    def append(self, tokens: Sequence[int], end_id: int, check_loops: bool) -> None:
        """Append a token to the text of each active row, and end the texts that are complete."""
        for place, (row, token) in enumerate(zip(self.rows.tolist(), tokens, strict=True)):
            if not self.active[place]:
                continue
            self.texts[row].append(token)
            if token == end_id:
                self.ended.add(row)
            elif check_loops and loop_length(self.texts[row]):
                self.looped.add(row)
            else:
                continue
            self.active[place] = False

    def next(self, tokens: Tensor) -> Tensor:
        """Return the logits (rows, vocabulary) after these tokens (rows,); ended rows are removed first if there are
        many."""
        if self.active.sum() <= MIN_ACTIVE_FRACTION * len(self.active):
            kept = self.active.nonzero()[:, 0]
            self.cache.keep(kept)
            tokens, self.rows, self.positions = tokens[kept], self.rows[kept], self.positions[kept]
            self.active = self.active[kept]
        if int(self.positions.max()) >= self.cache.room:
            self.cache.extend()
        logits = self.decoder.step(tokens, self.positions, self.cache)
        self.positions = self.positions + 1
        return logits
