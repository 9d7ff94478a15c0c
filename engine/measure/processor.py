"""What this processor takes for the parts of a pass, by rows: the figures from which ``lab/machines.py`` predicts what
a model costs here, as it does from published figures for other machines.

None is measured on the model itself. Products are of square weights, as many as the model has (what fits a cache is
read from there); what a layer takes besides its arithmetic is that of a layer too small to have any.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaConfig, LlamaForCausalLM

from engine.decoding.tree import pack
from engine.lab.machines import ModelShape, Processor
from engine.models.device import in_inference_mode
from engine.models.packed_linear import (
    ATTENTION_DTYPE,
    GROUP,
    HIGHEST,
    PACKED_BYTES,
    Levels,
    PackedHead,
    PackedLinear,
    join_weights,
)
from engine.models.rows import tree_rows
from engine.models.sampling import verification
from engine.models.target import NO_DRAWS, TorchTarget
from engine.records import Sampling
from engine.requests.rig_names import FOUR_BITS
from engine.serving.cost import mock_tree

SIDE = 1024  # of the square weights
SMALL, LAYERS = 64, 8  # the width of the small layers, and how many
PREFIX = 128  # tokens before the small layers' rows
HEADS, GROUPS, KEYS = 2, 4, 1024  # of the attention that is timed: of so many keys its dispatch is a small part
FAST = 25  # percentile of the turns: other programs only ever add time
MILLION = 1e6
PASS = "pass"  # of the target itself
Probe = tuple[float, Callable[[], object]]  # how many of ``Processor``'s units it does, and does it


def shape_of(config: Any) -> ModelShape:
    """A dense target's shape from transformers' config."""
    heads = config.num_attention_heads
    return ModelShape(
        config.num_hidden_layers, config.hidden_size, config.intermediate_size, heads, config.num_key_value_heads,
        getattr(config, "head_dim", None) or config.hidden_size // heads, config.vocab_size, config.tie_word_embeddings)


class Probes:
    """What is timed, in one dtype, for models of about this shape."""

    def __init__(self, dtype: str, shape: ModelShape) -> None:
        self.four_bits = dtype == FOUR_BITS
        self.states = torch.bfloat16 if self.four_bits else getattr(torch, dtype)
        self.vocabulary = shape.vocabulary
        self.weights = [PackedLinear(self._weight(SIDE, SIDE))
                        for _ in range(max(1, round(shape.layers * shape.layer / SIDE**2)))]
        self.outputs = max(1, shape.head // SIDE)
        self.head = PackedHead(nn.Linear(SIDE, self.outputs, bias=False, dtype=self.states))
        self.target = self._small_target()
        self.slots = torch.randn(2, 1, HEADS, KEYS, SMALL, dtype=self.states)
        self.attention_dtype = ATTENTION_DTYPE if self.four_bits else self.states
        if self.four_bits:
            self.head.make_batch_invariant()
            for weight in self.weights:
                weight.enable_int4()

    def _weight(self, outputs: int, inputs: int) -> Tensor:
        """A random weight; with 4 bits, one that lies on levels."""
        if not self.four_bits:
            return join_weights([torch.randn(outputs, inputs, dtype=self.states)])
        numbers = torch.randint(0, HIGHEST + 1, (outputs, inputs // GROUP, GROUP)).float()
        numbers[..., 0], numbers[..., 1] = 0, HIGHEST
        return Levels(numbers, torch.full((*numbers.shape[:2], 2), 2.0**-6, dtype=torch.bfloat16)).dense()

    def _small_target(self) -> TorchTarget:
        """Layers without arithmetic worth its time, after a prompt of ``PREFIX`` tokens."""
        model = LlamaForCausalLM(LlamaConfig(
            hidden_size=SMALL, intermediate_size=SMALL, num_hidden_layers=LAYERS, num_attention_heads=1,
            num_key_value_heads=1, vocab_size=SMALL)).to(self.states)
        for module in model.model.layers.modules():
            if isinstance(module, nn.Linear):
                module.weight.data = self._weight(*module.weight.shape)
        target = TorchTarget(model, ())
        if self.four_bits:
            target.enable_int4()
        target.prefill([0] * PREFIX, 1024, Sampling())
        return target

    def _attended(self, queries: Tensor) -> Tensor:
        keys, values = self.slots.to(self.attention_dtype).unbind()
        return scaled_dot_product_attention(queries, keys, values)

    def of(self, rows: int) -> dict[str, Probe]:
        """By the name of the field of ``Processor``."""
        inputs = torch.randn(rows, SIDE, dtype=self.states)
        queries = torch.randn(1, HEADS, GROUPS * rows, SMALL, dtype=self.attention_dtype)
        logits, tree = torch.randn(rows, self.vocabulary, dtype=self.states), pack(mock_tree(0, rows), PREFIX)
        tree_on_host = tree_rows(tree, NO_DRAWS, logits.device)
        return {
            "product": (len(self.weights) * SIDE**2 / MILLION, lambda: [weight(inputs) for weight in self.weights]),
            "head": (self.outputs * SIDE / MILLION, lambda: self.head(inputs)),
            "layer": (LAYERS, lambda: self.target.verify(tree)),
            "attention": (queries.numel() * KEYS / MILLION,
                          lambda: self._attended(queries)),
            "choice": (logits.numel() / MILLION, lambda: verification(logits, Sampling(), tree_on_host))}


@in_inference_mode
def measure_processor(target: TorchTarget, dtype: str, context: int, rows: Sequence[int], seconds: float) -> tuple[
        Processor, tuple[float, ...]]:
    """The processor's figures, and the milliseconds of the target's own passes over so many rows after a text of
    ``context`` tokens: lower quartiles of turns in shuffled order, taken for about so many ``seconds``, so that other
    programs disturb all of them alike."""
    timed, fork = Probes(dtype, shape_of(target.config)), target.fork()
    fork.prefill([0] * context, max(rows), Sampling())
    probes = {(part, size): probe for size in rows for part, probe in timed.of(size).items()}
    probes |= {(PASS, size): (1, partial(fork.verify, pack(mock_tree(0, size), context))) for size in rows}
    for _, act in probes.values():
        act()  # warms up
    spent: dict[tuple[str, int], list[float]] = defaultdict(list)
    order, began = random.Random(0), perf_counter()
    while not spent or perf_counter() - began < seconds:
        for key in order.sample(list(probes), len(probes)):
            (units, act), start = probes[key], perf_counter()
            act()
            spent[key].append(1e3 * (perf_counter() - start) / units)
    quartiles = {part: tuple(float(np.percentile(spent[part, size], FAST)) for size in rows) for part, _ in probes}
    passes = quartiles.pop(PASS)
    return Processor(PACKED_BYTES if timed.four_bits else timed.states.itemsize, tuple(rows), **quartiles), passes
