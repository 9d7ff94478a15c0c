"""A block's logits as a lattice: marginals, one row per depth; or transitions, one row per candidate of the slot
before.

DFlash 2 keeps the ``top_k`` largest unary logits U of each slot as its candidates C, and scores a transition a → b by
S(a, b) = U(b) + ⟨A[a] ⊙ H e, B[b]⟩, where e is the slot's hidden state. ``logprobs`` are log softmax(S) over C, the
reference's q, plus the log of C's share of the unary softmax over the vocabulary, so that a prefix is as probable as in
a lattice of marginals. Their product is at most 1, so best-first trees stay exact. S is read at temperature 1.

DSpark adds to a slot's logits a bias by the token before it; TreeFlash corrects the slot's hidden state by it. Any
token may follow any other, so the likeliest ``PREDECESSORS`` tokens of each slot, by the best prefix that ends in them,
have a row in the next. The chain of likeliest tokens, DSpark's own proposal, is always among the rows.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from engine.drafters.beam import BeamLevel, lattice_of
from engine.models.rows import to_host
from engine.records import Lattice

BLOCK = 32  # tokens of a large vocabulary that are searched together
LARGE = 8 * BLOCK  # times the width: in a smaller vocabulary all tokens are compared at once
PREDECESSORS = 16  # tokens of a slot that have a row of the next


def marginals(logits: Tensor, width: int) -> Lattice:
    """Return the ``width`` likeliest tokens of each depth of logits (depth, vocabulary), normalised before the cut."""
    logprobs, tokens = likeliest_tokens(logits, width)
    ids, values = to_host(tokens.int(), logprobs)
    return Lattice(ids[:, None], values[:, None], np.zeros_like(ids)[:, None])


def likeliest_tokens(logits: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return the ``width`` likeliest tokens of each row of logits (rows, vocabulary): log probabilities float32,
    descending, and tokens int64.

    In a large vocabulary on a CPU, each of them lies in one of the ``width`` blocks with the best maxima. Block i holds
    the tokens i, i + blocks, i + 2 · blocks, …, so that maxima are taken over whole rows; tokens left over are
    compared, too.
    """
    logprobs, vocabulary = logits.log_softmax(-1, torch.float32), logits.shape[-1]
    width = min(width, vocabulary)
    if logits.device.type != "cpu" or vocabulary < LARGE * width:
        best = logprobs.topk(width, -1)
        return best.values, best.indices
    blocks = vocabulary // BLOCK
    left_over = torch.arange(blocks * BLOCK, vocabulary).expand(len(logprobs), -1)
    maxima = logprobs[:, :blocks * BLOCK].unflatten(-1, (BLOCK, blocks)).amax(1)
    chosen = maxima.topk(width, -1, sorted=False).indices
    inside = (chosen[:, None] + blocks * torch.arange(BLOCK)[:, None]).flatten(1)
    compared = torch.cat([inside, left_over], -1)
    best = logprobs.gather(-1, compared).topk(width, -1)
    return best.values, compared.gather(-1, best.indices)


class CandidateSelector(nn.Module):
    """Scores transitions between the candidates of neighbouring slots, with the published tensor names."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        rank = config.dflash_config["selector_rank"]
        self.top_k: int = config.dflash_config["selector_top_k"]
        self.predecessor_codebook = nn.Parameter(torch.empty(config.vocab_size, rank))
        self.successor_codebook = nn.Parameter(torch.empty(config.vocab_size, rank))
        self.hidden_projection = nn.Linear(config.hidden_size, rank, bias=False)
        for weight in self.parameters():
            nn.init.normal_(weight, std=config.initializer_range)

    def edges(self, hidden: Tensor, predecessors: Tensor, candidates: Tensor) -> Tensor:
        """Return what transitions from predecessors (…, m) to candidates (…, k) of slots with hidden states (…, hidden)
        add to the unary logits, (…, m, k)."""
        projected = self.predecessor_codebook[predecessors] * self.hidden_projection(hidden)[..., None, :]
        edges: Tensor = projected @ self.successor_codebook[candidates].transpose(-1, -2)
        return edges

    def lattices(self, logits: Tensor, hidden: Tensor, roots: Tensor, width: int) -> list[Lattice]:
        """Return a lattice (depth, top_k, width or top_k) for each of n blocks, by logits (n, depth, vocabulary),
        hidden states (n, depth, hidden) and roots (n,)."""
        unary, candidates = (best.unflatten(0, logits.shape[:2]) for best in likeliest_tokens(
            logits.flatten(0, 1), self.top_k))  # normalised, which changes no difference between scores
        predecessors = torch.cat([roots[:, None, None].expand(-1, 1, self.top_k), candidates[:, :-1]], 1)
        scores = unary[..., None, :] + self.edges(hidden, predecessors, candidates).float()
        kept = unary.logsumexp(-1)[..., None, None]
        best = scores.topk(min(width, self.top_k), -1)
        logprobs = scores.log_softmax(-1).gather(-1, best.indices).add_(kept).clamp_(max=0.0)
        logprobs[:, 0, 1:] = -torch.inf  # no cell leads there: before the first slot stands the root alone
        tokens = candidates[..., None, :].expand_as(scores).gather(-1, best.indices)
        return [Lattice(*block) for block in zip(
            *to_host(tokens.int(), logprobs, best.indices.int()), strict=True)]


class MarkovHead(nn.Module):
    """Biases a slot's logits by the token before it, with the published tensor names; plain, or gated by the hidden
    state."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        rank = config.dflash_config["markov_rank"]
        gated = config.dflash_config.get("markov_head_type") == "gated"
        self.markov_w1 = nn.Embedding(config.vocab_size, rank)
        self.markov_w2 = nn.Linear(rank, config.vocab_size, bias=False)
        self.gate_proj = nn.Linear(config.hidden_size + rank, rank) if gated else None

    def forward(self, hidden: Tensor, predecessors: Tensor) -> Tensor:
        """Return the biases (m, vocabulary) of predecessors (m,) for a slot with this hidden state (hidden size,)."""
        embedded: Tensor = self.markov_w1(predecessors)
        if self.gate_proj is not None:
            embedded = self.gate_proj(torch.cat([hidden.expand(len(embedded), -1), embedded], -1)).sigmoid() * embedded
        bias: Tensor = self.markov_w2(embedded)
        return bias


class TokenCorrection(nn.Module):
    """Corrects a slot's hidden state by the token before it, with TreeFlash's tensor names."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.ug = nn.Linear(2 * config.hidden_size, 2 * config.intermediate_size)
        self.d = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.norm = Qwen3RMSNorm(config.hidden_size, eps=1e-6)

    def forward(self, before: Tensor, state: Tensor) -> Tensor:
        """Return what tokens with embeddings ``before`` (m, hidden size) add to a slot's hidden state; ``state``
        (hidden size,) is its normed one."""
        up, gate = self.ug(torch.cat([self.norm(before), state.expand(len(before), -1)], -1)).chunk(2, -1)
        added: Tensor = self.d(silu(gate) * up)
        return added


def transitions(after: Callable[[int, Tensor], Tensor], depth: int, root: Tensor, width: int) -> Lattice:
    """Return the lattice (depth, ``PREDECESSORS`` + 1, width) of a block with this root (); ``after`` gives logits (m,
    vocabulary) of a slot after tokens (m,). The last row leads nowhere."""
    predecessors, scores = root[None], torch.zeros(1, device=root.device)
    levels: list[BeamLevel] = []
    for slot in range(depth):
        logits = after(slot, predecessors)
        logprobs, tokens = likeliest_tokens(logits, width)
        vocabulary = logits.shape[-1]
        # by token, not by distinct token: their number is on the device, and reading it would wait for the pass
        best = scores.new_full((vocabulary,), -torch.inf).scatter_reduce_(
            0, tokens.flatten(), (scores[:, None] + logprobs).flatten(), "amax")
        greedy = tokens[0, :1]  # the first predecessor is the greedy chain's, and so its first token
        kept = best.index_fill(0, greedy, torch.inf).topk(min(PREDECESSORS, vocabulary)).indices
        rows = tokens.new_full((vocabulary,), PREDECESSORS)
        rows[kept] = torch.arange(len(kept), device=rows.device)
        levels.append(BeamLevel(tokens, logprobs, rows[tokens]))
        predecessors, scores = kept, best[kept]
    return lattice_of(levels, PREDECESSORS)
