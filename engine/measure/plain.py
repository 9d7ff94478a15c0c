"""The published DDTree loop, written from the paper's description, as a baseline for benchmarks.

It has a cache that grows by concatenation, every layer's hidden states, the whole vocabulary's log-softmax on the host,
a Python heap, a dense mask made anew each round, acceptance over Python lists, and a clock that waits for the device at
the end of each stage. It writes the same text at another speed; in ``engine.commands.bench`` it is ``plain``. Paper
002, Algorithm 1 and sections 4.3 and 4.4.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor
from transformers import DynamicCache

from engine.drafters.abilities import BlockDrafter
from engine.models.target import TorchTarget
from engine.records import STAGES, Request


def nothing() -> None:
    """Wait for a CPU, whose calls return when their work is done."""


@dataclass
class HeapTree:
    """A tree as lists: the token, parent (0 is the root) and depth of each drafted node."""

    tokens: list[int]
    parents: list[int]
    depths: list[int]


def heap_tree(logprobs: Tensor, budget: int) -> HeapTree:
    """The tree by Algorithm 1 as printed, from logprobs (depth, vocabulary): pop the best prefix, push its next sibling
    and its first child."""
    top = logprobs.topk(min(budget, logprobs.shape[-1]), -1)
    scores, tokens = top.values.tolist(), top.indices.tolist()
    tree = HeapTree([], [], [])
    heap = [(-scores[0][0], 0, 0, 0)] if budget else []  # (−σ, parent, depth index, rank)
    while heap and len(tree.tokens) < budget:
        score, parent, depth, rank = heapq.heappop(heap)
        tree.tokens.append(tokens[depth][rank])
        tree.parents.append(parent)
        tree.depths.append(depth + 1)
        if rank + 1 < len(tokens[depth]):
            heapq.heappush(heap, (score + scores[depth][rank] - scores[depth][rank + 1], parent, depth, rank + 1))
        if depth + 1 < len(tokens):
            heapq.heappush(heap, (score - scores[depth + 1][0], len(tree.tokens), depth + 1, 0))
    return tree


@dataclass
class PlainState:
    """The loop's state: the caches of target and drafter, the root, and the features that the drafter has not read."""

    cache: DynamicCache
    context: Tensor
    root: int
    length: int
    features: Tensor


class PlainLoop:
    """Greedy DDTree rounds; each yields the tokens it commits, the root first."""

    def __init__(self, target: TorchTarget, drafter: BlockDrafter) -> None:
        self.target, self.drafter = target, drafter
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.wait = torch.cuda.synchronize if target.device.type == "cuda" else nothing
        self._since = 0.0

    def _lap(self, stage: str) -> None:
        """End a stage's time, once the device has finished too."""
        self.wait()
        now = perf_counter()
        self.seconds[stage] += now - self._since
        self._since = now

    @torch.inference_mode()
    def open(self, request: Request) -> PlainState:
        """Read the prompt."""
        model = self.target.model
        prompt = torch.tensor([request.prompt_ids], device=model.device)
        cache = DynamicCache(config=model.config)
        output = model(input_ids=prompt, past_key_values=cache, use_cache=True, output_hidden_states=True,
                       logits_to_keep=1)
        return PlainState(cache, torch.empty(0), int(output.logits[0, -1].argmax()), prompt.shape[1],
                          self._features(output.hidden_states, slice(None)))

    @torch.inference_mode()
    def rounds(self, request: Request, state: PlainState) -> Iterator[list[int]]:
        """The rounds of a greedy request, up to its first stop token or max_tokens."""
        left = request.max_tokens
        while left > 0 and state.root not in request.stop_ids:
            tokens = self._round(state, request.budget)[:left]
            ends = [place for place, token in enumerate(tokens) if token in request.stop_ids]
            yield tokens[:ends[0]] if ends else tokens
            if ends:
                return
            left -= len(tokens)

    def _features(self, states: tuple[Tensor, ...], rows: slice | Tensor) -> Tensor:
        return torch.cat([states[layer + 1][0, rows] for layer in self.target.taps], -1)

    def _draft(self, state: PlainState) -> Tensor:
        drafter, model = self.drafter, self.drafter.model
        seen = state.context.shape[-2] if state.context.numel() else 0
        device = drafter.device
        fresh = model.context(state.features[None], model.rotation(torch.arange(seen, state.length, device=device)))
        state.context = torch.cat([state.context, fresh], -2) if seen else fresh
        tokens = torch.full((1, drafter.block), drafter.mask_id, device=device)
        tokens[0, 0] = state.root
        positions = torch.arange(state.length, state.length + drafter.block, device=device)
        places = torch.arange(state.length + drafter.block, device=device)
        hidden = model(drafter.embedded(tokens), model.rotation(positions), state.context, None, (positions, places))
        logprobs: Tensor = drafter.logits(model.norm(model.proposing(hidden[0]))).float().log_softmax(-1).cpu()
        return logprobs

    def _round(self, state: PlainState, budget: int) -> list[int]:
        self._since = perf_counter()
        logprobs = self._draft(state)
        self._lap("draft")
        tree = heap_tree(logprobs, budget)
        self._lap("build")
        tokens, parents = [state.root, *tree.tokens], [0, *tree.parents]
        size = len(tokens)
        seen = torch.zeros(size, size, dtype=torch.bool)
        seen[0, 0] = True
        for row in range(1, size):
            seen[row] = seen[parents[row]]
            seen[row, row] = True
        dtype, device = self.target.model.dtype, self.target.device
        mask = torch.zeros(1, 1, size, state.length + size, dtype=dtype)
        mask[0, 0, :, state.length:].masked_fill_(~seen, torch.finfo(dtype).min)
        self._lap("pack")
        output = self.target.model(
            input_ids=torch.tensor([tokens], device=device), position_ids=torch.tensor([[
                state.length + depth for depth in (0, *tree.depths)]], device=device),
            attention_mask=mask.to(device), past_key_values=state.cache, use_cache=True, output_hidden_states=True)
        self._lap("verify")
        choices = output.logits[0].argmax(-1).tolist()
        keep = self._walk(tokens, parents, choices)
        self._lap("accept")
        self._compact(state, keep)
        state.features = self._features(output.hidden_states, torch.tensor(keep, device=device))
        state.length += len(keep)
        state.root = choices[keep[-1]]
        self._lap("keep")
        return [tokens[node] for node in keep]

    def _walk(self, tokens: list[int], parents: list[int], choices: list[int]) -> list[int]:
        children: list[dict[int, int]] = [{} for _ in tokens]
        for node in range(1, len(tokens)):
            children[parents[node]][tokens[node]] = node
        keep = [0]
        while choices[keep[-1]] in children[keep[-1]]:
            keep.append(children[keep[-1]][choices[keep[-1]]])
        return keep

    def _compact(self, state: PlainState, keep: list[int]) -> None:
        rows = torch.cat([torch.arange(state.length), torch.tensor(keep) + state.length]).to(self.target.device)
        for layer in state.cache.layers:
            layer.keys = layer.keys.index_select(-2, rows)
            layer.values = layer.values.index_select(-2, rows)
