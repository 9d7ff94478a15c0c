"""The published DDTree loop, written from the paper's description (002, Algorithm 1, sections 4.3 and 4.4), as a
baseline.

It has a cache that grows by concatenation, every layer's hidden states, the whole vocabulary's log-softmax on the host,
a Python heap, a dense mask made anew each round, acceptance over Python lists, and a clock that waits for the device
after each stage. It writes the same text at another speed; ``bench`` calls it ``published``.
"""

import heapq
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from engine.drafters.dflash.drafter import DFlashDrafter
from engine.models.cache import cache_argument
from engine.models.target import TorchTarget
from engine.records import Request


def heap_tree(logprobs: Tensor, budget: int) -> tuple[list[int], list[int], list[int]]:
    """Return token, parent (0 is the root) and depth of each node of the tree by Algorithm 1, from logprobs (depth,
    vocabulary): pop the best prefix, push its next sibling and its first child."""
    top = logprobs.topk(min(budget, logprobs.shape[-1]), -1)
    scores, candidates = top.values.tolist(), top.indices.tolist()
    tokens: list[int] = []
    parents: list[int] = []
    depths: list[int] = []
    heap = [(-scores[0][0], 0, 0, 0)] if budget else []  # (−σ, parent, depth index, rank)
    while heap and len(tokens) < budget:
        score, parent, depth, rank = heapq.heappop(heap)
        tokens.append(candidates[depth][rank])
        parents.append(parent)
        depths.append(depth + 1)
        if rank + 1 < len(candidates[depth]):
            heapq.heappush(heap, (score + scores[depth][rank] - scores[depth][rank + 1], parent, depth, rank + 1))
        if depth + 1 < len(candidates):
            heapq.heappush(heap, (score - scores[depth + 1][0], len(tokens), depth + 1, 0))
    return tokens, parents, depths


class PublishedLoop:
    """The greedy DDTree rounds of one request, whose prompt is read at once."""

    @torch.inference_mode()
    def __init__(self, target: TorchTarget, drafter: DFlashDrafter, request: Request) -> None:
        self.target, self.drafter, self.request = target, drafter, request
        self.cache = DynamicCache(config=target.model.config)
        prompt = torch.tensor([request.prompt_ids], device=target.device)
        self._cached: dict[str, Any] = {
            cache_argument(target.model): self.cache, "use_cache": True, "output_hidden_states": True}
        output = target.model(input_ids=prompt, logits_to_keep=1, **self._cached)
        self.root, self.length = int(output.logits[0, -1].argmax()), prompt.shape[1]
        self.context = torch.empty(0)  # the drafter's, of the features that it has read
        self.features = self._features(output.hidden_states, slice(None))  # that it has not

    @torch.inference_mode()
    def rounds(self) -> Iterator[list[int]]:
        """Yield the tokens that each round commits, the root first, up to the first stop token or max_tokens."""
        left, stops = self.request.max_tokens, self.request.stop_ids
        while left > 0 and self.root not in stops:
            tokens = self._round()[:left]
            ends = [position for position, token in enumerate(tokens) if token in stops]
            yield tokens[:ends[0]] if ends else tokens
            if ends:
                return
            left -= len(tokens)

    def _wait(self) -> None:
        """Wait for the device, as the published loop's clock does at the end of each stage."""
        if self.target.device.type == "cuda":
            torch.cuda.synchronize()

    def _features(self, states: tuple[Tensor, ...], rows: slice | Tensor) -> Tensor:
        return torch.cat([states[layer + 1][0, rows] for layer in self.target.taps], -1)

    def _draft(self) -> Tensor:
        """Return log probabilities (depth, vocabulary), on the host."""
        drafter, model, device = self.drafter, self.drafter.model, self.drafter.device
        read = self.context.shape[-2] if self.context.numel() else 0
        added = model.context(self.features[None], model.rotation(torch.arange(read, self.length, device=device)))
        self.context = torch.cat([self.context, added], -2) if read else added
        tokens = torch.full((1, drafter.block), drafter.mask_id, device=device)
        tokens[0, 0] = self.root
        positions = torch.arange(self.length + drafter.block, device=device)
        in_block = positions[self.length:]
        hidden = model(drafter.embedded(tokens), model.rotation(in_block), self.context, None,
                       (in_block, positions))
        logprobs: Tensor = drafter.logits(model.norm(model.proposing(hidden[0]))).float().log_softmax(-1).cpu()
        return logprobs

    def _round(self) -> list[int]:
        logprobs = self._draft()
        self._wait()
        drafted, parents, depths = heap_tree(logprobs, self.request.budget)
        tokens, parents = [self.root, *drafted], [0, *parents]
        size = len(tokens)
        visible = torch.eye(size, dtype=torch.bool)
        for row in range(1, size):
            visible[row] |= visible[parents[row]]
        dtype, device = self.target.model.dtype, self.target.device
        mask = torch.zeros(1, 1, size, self.length + size, dtype=dtype)
        mask[0, 0, :, self.length:].masked_fill_(~visible, torch.finfo(dtype).min)
        output = self.target.model(
            input_ids=torch.tensor([tokens], device=device), position_ids=torch.tensor([[
                self.length + depth for depth in (0, *depths)]], device=device),
            attention_mask=mask.to(device), **self._cached)
        self._wait()
        choices = output.logits[0].argmax(-1).tolist()
        keep = walk(tokens, parents, choices)
        rows = torch.cat([torch.arange(self.length), torch.tensor(keep) + self.length]).to(device)
        for layer in self.cache.layers:
            layer.keys, layer.values = layer.keys.index_select(-2, rows), layer.values.index_select(-2, rows)
        self.features = self._features(output.hidden_states, torch.tensor(keep, device=device))
        self.length += len(keep)
        self.root = choices[keep[-1]]
        self._wait()
        return [tokens[node] for node in keep]


def walk(tokens: list[int], parents: list[int], choices: list[int]) -> list[int]:
    """Return the nodes from the root along the target's choices, as far as the tree has them."""
    children: list[dict[int, int]] = [{} for _ in tokens]
    for node in range(1, len(tokens)):
        children[parents[node]][tokens[node]] = node
    keep = [0]
    while choices[keep[-1]] in children[keep[-1]]:
        keep.append(children[keep[-1]][choices[keep[-1]]])
    return keep
