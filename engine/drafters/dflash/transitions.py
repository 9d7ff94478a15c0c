"""Lattices of transitions: proposals for a slot depend on the token before it, so there is a row for each candidate.

DFlash 2 keeps the ``top_k`` largest unary logits U of each slot as its candidates C, and scores a transition a → b from
the slot before by S(a, b) = U(b) + ⟨A[a] ⊙ H e, B[b]⟩, where e is the slot's hidden state. Its own proposal is a greedy
walk over S; under temperature it draws from softmax(S) over the candidates.

``logprobs`` are log softmax(S) over C plus the log of what the unary softmax over the whole vocabulary gives C. The
first factor is the reference's q and fixes the order in a row; the second, equal for all rows of a depth, keeps a
prefix as probable as in a lattice of marginals, with which μ, budgets and what-ifs compare it. A product of them is at
most 1, so best-first trees stay exact. S is read at temperature 1, whatever the request's: it is the target's choices
that follow a request's temperature.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Qwen3Config

from engine.records import Lattice


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
        """What transitions add to the unary logits, (…, m, k), from predecessors (…, m) to candidates (…, k) of slots
        with hidden states (…, hidden)."""
        asked = self.predecessor_codebook[predecessors] * self.hidden_projection(hidden)[..., None, :]
        edges: Tensor = asked @ self.successor_codebook[candidates].transpose(-1, -2)
        return edges

    def lattices(self, logits: Tensor, hidden: Tensor, roots: Tensor, width: int) -> list[Lattice]:
        """A lattice of (depth, top_k, width or top_k) for each of n blocks, by unary logits (n, depth, vocabulary),
        hidden states (n, depth, hidden) and roots (n,)."""
        logits = logits.float()
        unary, candidates = logits.topk(self.top_k, -1)
        predecessors = torch.cat([roots[:, None, None].expand(-1, 1, self.top_k), candidates[:, :-1]], 1)
        scores = unary[..., None, :] + self.edges(hidden, predecessors, candidates).float()
        kept = unary.logsumexp(-1) - logits.logsumexp(-1)
        best = scores.topk(min(width, self.top_k), -1)
        logprobs = (best.values - scores.logsumexp(-1, keepdim=True) + kept[..., None, None]).clamp_(max=0.0)
        logprobs[:, 0, 1:] = -torch.inf  # no cell leads there: before the first slot stands the root alone
        tokens = candidates[..., None, :].expand_as(scores).gather(-1, best.indices)
        return [Lattice(*block) for block in zip(
            tokens.cpu().numpy().astype(np.int32), logprobs.cpu().numpy(), best.indices.cpu().numpy().astype(np.int32),
            strict=True)]
