"""The target's pass captured: compiled once for each size of it, on a GPU as a CUDA graph. No GPU has run it yet.

A captured pass has fixed shapes and reads fixed memory. So rows and context are padded to their buckets: rows to one
more than a power of two, since a tree has a root beside its nodes, context to a power of two. Keys and values lie in a
buffer, which one text at a time borrows; rows are written there by their indices. Passes over several texts, a second
text beside the first, and texts longer than the buffer go as without capture, and are counted. The host's part of a
round stays what it is.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import chain
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear
from transformers import PretrainedConfig

from engine.errors import RigError
from engine.models.cache import TreeCache
from engine.models.layers import Experts
from engine.models.passes import FusedPass, PassOutput, PassPart, ReferencePass
from engine.requests.rig_names import FOUR_BITS

BUFFER = 4096  # positions: the length of a cache that a rig is sure to have room for
LEAST_CONTEXT = 256  # positions of the smallest bucket
CAPTURED = (f"The target's pass is captured (--capture) for one run at a time and up to {BUFFER:,} positions; other "
            "passes go as without.")
WAY_OUT = "leave --capture out"

Slots = Sequence[tuple[Tensor, ...]]  # each layer's keys and values, (1, kv heads, BUFFER, head size)
Graph = Callable[[Tensor, Tensor, Tensor, Tensor, Slots], tuple[Tensor, Tensor]]


def must_be_captured(usual: FusedPass | ReferencePass, kind: str, four_bits: bool) -> FusedPass:
    """The target's fused pass; RigError where there is none that a graph can hold."""
    if not isinstance(usual, FusedPass):
        raise RigError(f"The rounds of a {kind} go through transformers' own code here, and only the fused pass of "
                       f"Qwen, Llama and Mistral models on one device is captured; {WAY_OUT}.")
    if any(isinstance(layer.mlp, Experts) for layer in usual.layers):
        raise RigError(f"A {kind} is a mixture of experts, whose shapes depend on what rows hold, and a graph's are "
                       f"fixed; {WAY_OUT}.")
    dtype = FOUR_BITS if four_bits else str(usual.head.weight.dtype).removeprefix("torch.")
    if usual.head.weight.device.type == "cpu" and dtype != "float32":
        raise RigError(f"On a CPU only weights in float32 are captured, and these are in {dtype}; name --dtype "
                       f"float32, or {WAY_OUT}.")
    return usual


def bucket(count: int, least: int = 1) -> int:
    """The smallest power of two that is neither below ``count`` nor below ``least``."""
    return max(least, 1 << (count - 1).bit_length())


class CapturedPass:
    """The pass ``usual`` as graphs, compiled by this ``backend`` of torch.compile. ``graphs`` has them by their buckets
    of rows and context; ``passes`` counts the passes of each, and under None those that went as without capture."""

    def __init__(self, usual: FusedPass, config: PretrainedConfig, backend: str) -> None:
        self.usual, self.backend = usual, backend
        self.graphs: dict[tuple[int, int], Graph] = {}
        self.passes: Counter[tuple[int, int] | None] = Counter()
        self._buffer = TreeCache(config, BUFFER, usual.head.weight)
        self._slots = [layer.unbind() for layer in self._buffer.slots]
        self._rotation = usual.rotations.span(0, BUFFER)
        self._borrower: Callable[[], TreeCache | None] = lambda: None
        for tensor in self._fixed():
            torch._dynamo.mark_static_address(tensor)

    def _fixed(self) -> Iterator[Tensor]:
        """What stays where it lies for as long as the rig is open, so that no graph copies it first."""
        yield from (*self._rotation, *chain.from_iterable(self._slots), self.usual.head.weight, self.usual.norm.gain)
        for layer in self.usual.layers:
            yield from (product.weight for product in layer.linears())
            yield from (product.bias for product in layer.linears() if product.bias is not None)
            yield from (norm.gain for norm in (layer.first_norm, layer.second_norm, layer.head_norm) if norm)

    def cache(self, capacity: int) -> TreeCache | None:
        """The buffer as the cache of a new text; None where it is too small, or where another text has it."""
        if capacity > BUFFER or self._borrower() is not None:
            return None
        cache = copy(self._buffer)
        self._borrower = ref(cache)
        return cache

    def __call__(self, parts: Sequence[PassPart]) -> list[PassOutput]:
        """See ``FusedPass.forward``."""
        return self.forward(parts)

    def forward(self, parts: Sequence[PassPart]) -> list[PassOutput]:
        """The pass itself, as a module's, so that a benchmark can put its clock in its place."""
        part, count, committed = parts[0], len(parts[0].tokens), int(parts[0].cache.length)
        rows = 1 + bucket(count - 1) if count > 1 else 1  # a tree has its budget's nodes and the root
        context = bucket(committed + rows, LEAST_CONTEXT)
        size = rows, context
        if len(parts) > 1 or part.cache is not self._borrower() or context > BUFFER:
            self.passes[None] += 1
            return list(self.usual(parts))
        self.passes[size] += 1
        if size not in self.graphs:
            self.graphs[size] = self._graph(context)
        device = part.tokens.device
        tokens, positions = torch.zeros(2, rows, dtype=torch.long, device=device)
        tokens[:count], positions[:count] = part.tokens, part.positions
        seen = torch.eye(rows, dtype=torch.bool, device=device)  # a row of padding sees itself alone
        seen[:count, :count] = True if part.seen is None else part.seen
        torch.compiler.cudagraph_mark_step_begin()
        length = torch.tensor(committed, device=device)
        try:
            outputs = self.graphs[size](tokens, positions, seen, length, self._slots)
        except (torch._dynamo.exc.TorchDynamoException, torch._dynamo.exc.FailOnRecompileLimitHit) as error:
            raise RigError(f"The target's pass over {rows} rows could not be captured "
                           f"({type(error).__name__}); {WAY_OUT}.") from error
        return [PassOutput(*(output[:count].clone() for output in outputs))]  # a graph writes its next over these

    def _graph(self, context: int) -> Graph:
        """The pass over a bucket of context, to be compiled when it is first called, for as many rows as it is given;
        it raises where it would have to be compiled again."""
        fused, (cosines, sines) = self.usual, self._rotation

        def run(tokens: Tensor, positions: Tensor, seen: Tensor, length: Tensor, slots: Slots) -> tuple[Tensor, Tensor]:
            fresh_slots = length + torch.arange(len(tokens), device=tokens.device)
            columns = torch.arange(context, device=tokens.device) - length  # the row that each slot belongs to
            drafted = seen[:, columns.clamp(0, len(tokens) - 1)] & (columns >= 0) & (columns < len(tokens))
            mask = torch.where(drafted | (columns < 0), 0.0, -torch.inf).to(cosines.dtype)
            mask = mask.repeat(fused.groups, 1)[None, None]
            rotation = cosines.index_select(0, positions), sines.index_select(0, positions)
            hidden, outputs = embedding(tokens, fused.base.embed_tokens.weight), []
            for layer, (keys, values) in zip(fused.layers, slots, strict=True):
                heads, fresh = layer.projected(layer.first_norm(hidden), rotation)
                keys.index_copy_(2, fresh_slots, heads[None, :, layer.query_heads:].transpose(1, 2))
                values.index_copy_(2, fresh_slots, fresh[None].transpose(1, 2))
                attended = layer.attended(heads, keys[:, :, :context], values[:, :, :context], mask)
                hidden = layer.out(attended) + hidden
                hidden = layer.mlp(layer.second_norm(hidden)) + hidden
                outputs.append(hidden)
            logits = linear(fused.norm(hidden), fused.head.weight, fused.head.bias)
            return logits, torch.cat([outputs[layer] for layer in fused.taps], -1) if fused.taps else logits[:0]

        once: Any = {"isolate_recompiles": True, "recompile_limit": 1}
        mode = "reduce-overhead" if cosines.device.type == "cuda" else None
        graph: Graph = torch.compile(run, fullgraph=True, dynamic=False, backend=self.backend, mode=mode, **once)
        return graph
