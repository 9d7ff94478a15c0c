"""The target's choices and their statistics, computed from its logits on its device.

Every absolute position has one uniform draw, made from the seed alone. All nodes of a depth share it, so equal
prefixes choose alike (independent draws at duplicate siblings would be biased), the walk stays exact, and the same
seed gives the same text whatever the method, the budget or the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.errors import RequestError
from engine.models.rows import PassRows, to_host
from engine.records import Alternatives, Floats, Integers, Sampling, Verification

LOGITS_PER_BATCH = 2**17  # logits per batch of statistics: more would not fit the CPU's caches and take twice the time
MAX_LAZY_LOGITS = 2**17  # larger passes compute their statistics at once instead of keeping the logits


def likeliest(logits: Tensor) -> Tensor:
    """Return the most likely token of each row of logits (rows, vocabulary), the first among equals: (rows,) int64."""
    # for 65 rows of 1,536 logits torch takes 71 µs on a CPU, numpy 7
    if logits.device.type == "cpu":
        return torch.from_numpy(logits.float().numpy().argmax(-1))
    return logits.argmax(-1)


def processed_logprobs(logits: Tensor, sampling: Sampling) -> Tensor:
    """Apply temperature, min-p, top-k and top-p, in vLLM's order, to logits (rows, vocabulary). Returns log
    probabilities float32, −inf for tokens that are cut; at temperature 0 the argmax has probability 1."""
    if sampling.temperature == 0:
        return torch.full_like(logits, -torch.inf).scatter_(-1, likeliest(logits)[:, None], 0.0)
    logits = logits / sampling.temperature
    if sampling.min_p > 0:
        logits = logits.masked_fill(logits < logits.amax(-1, keepdim=True) + math.log(sampling.min_p), -torch.inf)
    if 0 < sampling.top_k < logits.shape[-1]:
        kth_largest = logits.topk(sampling.top_k, -1).values[..., -1:]
        logits = logits.masked_fill(logits < kth_largest, -torch.inf)
    if sampling.top_p < 1:
        ordered, order = logits.sort(-1, descending=True)
        mass = ordered.softmax(-1)
        outside = mass.cumsum(-1) - mass >= sampling.top_p  # the token that crosses top_p stays
        logits = logits.masked_fill(outside.scatter(-1, order, outside), -torch.inf)
    return logits.log_softmax(-1)


def draw_tokens(probabilities: Tensor, draws: Tensor) -> Tensor:
    """Sample a token per row, (rows,) int64, by inverse transform sampling from unnormalised probabilities (rows,
    vocabulary) with draws (rows,) in [0, 1)."""
    cumulative = probabilities.double().cumsum(-1)
    chosen = torch.searchsorted(cumulative, (draws.double() * cumulative[:, -1])[:, None], right=True)[:, 0]
    last = probabilities.shape[-1] - 1 - (probabilities.flip(-1) > 0).int().argmax(-1)
    return torch.minimum(chosen, last)


def choices(logits: Tensor, sampling: Sampling, draws: Tensor) -> tuple[Tensor, Tensor | None]:
    """Choose a token at each row of logits (rows, vocabulary), with draws (rows,) float64 in [0, 1). Returns choices
    (rows,) int64 and, unless greedy, the processed log probabilities (rows, vocabulary) float32, on the device."""
    if sampling.temperature == 0:
        return likeliest(logits), None
    processed = processed_logprobs(logits.float(), sampling)
    return draw_tokens(processed.exp(), draws), processed


def check_finite(largest: float) -> None:
    """Raise RequestError unless a position's largest logit is finite. It is NaN if any of its logits is."""
    if not np.isfinite(largest):
        raise RequestError(
            f"The target computed {largest} instead of logits: its weights hold NaN or infinite values, or its numbers "
            "grow beyond its dtype; fetch the weights again, or try --dtype float32.")


def _largest_on_cpu(row: Tensor) -> float:
    """Return the largest of a row's logits, NaN if one is NaN. Waking torch's threads would take milliseconds."""
    if row.dtype != torch.bfloat16:
        return float(row.numpy().max())
    upper_halves = row.view(torch.int16).numpy().view(np.uint16).astype(np.uint32)  # of the same numbers in float32
    return float((upper_halves << 16).view(np.float32).max())


def verification(logits: Tensor, sampling: Sampling, rows: PassRows, adjusted: Tensor | None = None) -> Verification:
    """Return the target's choices and statistics at each node, as host arrays. ``adjusted``: logits with penalties and
    biases, by which it chooses. Up to ``MAX_LAZY_LOGITS`` logits (rows, vocabulary), statistics are computed when they
    are read, because a round needs only the choices along its path."""
    target_choices: GreedyChoices | KnownChoices
    if sampling.temperature == 0 and logits.device.type == "cpu" and adjusted is None:
        check_finite(_largest_on_cpu(logits[0]))
        target_choices = GreedyChoices(logits, rows.tokens.numpy(), rows.parents.numpy())
    else:
        choice, processed = choices(logits if adjusted is None else adjusted, sampling, rows.draws)
        if adjusted is not None and processed is None:
            processed = processed_logprobs(adjusted, sampling)
        on_host, largest = to_host(choice.int(), logits[:1].amax(-1).float())
        check_finite(float(largest[0]))
        target_choices = KnownChoices(
            on_host, lambda: Verification(on_host, *describe(logits, choice, processed, rows)))
    return LazyVerification(target_choices) if logits.numel() <= MAX_LAZY_LOGITS else target_choices.described()


class LazyVerification(Verification):
    """Computes the statistics when one is first read, then drops the logits. Acceptance reads only choices."""

    def __init__(self, choices: GreedyChoices | KnownChoices) -> None:
        self._source: GreedyChoices | KnownChoices | Verification = choices

    def at(self, node: int) -> int:
        return self._source.at(node)

    def __getattr__(self, name: str) -> Any:
        """Return a field; if two threads compute the statistics at once, either result stays."""
        if name.startswith("_"):
            raise AttributeError(name)
        source = self._source
        if name != "choice" and not isinstance(source, Verification):
            source = self._source = source.described()
        return getattr(source, name)


class KnownChoices:
    """Choices computed at once: sampled ones, of adjusted logits, or on a GPU."""

    def __init__(self, choice: Integers, described: Callable[[], Verification]) -> None:
        self.choice, self.described = choice, described

    def at(self, node: int) -> int:
        return int(self.choice[node])


class GreedyChoices:
    """Choices at temperature 0 from logits (rows, vocabulary) on a CPU, computed row by row when they are read: half of
    the rows are in the other core's cache, and reading all takes longer than the search."""

    def __init__(self, logits: Tensor, tokens: Integers, parents: Integers) -> None:
        self.logits, self.tokens, self.parents = logits, tokens, parents
        # non-negative bfloat16 numbers are ordered as their bits are
        self._bits = logits.view(torch.int16).numpy() if logits.dtype == torch.bfloat16 else None

    def at(self, node: int) -> int:
        """Return the most likely token at one node, the first among equals."""
        if self._bits is not None:
            row = self._bits[node]
            best = int(row.argmax())
            if row[best] > 0:
                return best
        return int(likeliest(self.logits[node:node + 1]))

    @cached_property
    def choice(self) -> Integers:
        """The most likely token of each row, (rows,) int32."""
        return likeliest(self.logits).numpy().astype(np.int32)

    def described(self) -> Verification:
        return _greedy_on_cpu(self.logits.float().numpy(), self.choice, self.tokens, self.parents)


@torch.inference_mode()
def most_likely(logits: Tensor, count: int) -> Alternatives:
    """Return the ``count`` most likely tokens of each row of logits (rows, vocabulary)."""
    logits, count = logits.float(), min(count, logits.shape[-1])
    if logits.device.type != "cpu":
        top, tokens = logits.topk(count)
        return Alternatives(*to_host(tokens.int(), top - logits.logsumexp(-1, keepdim=True)))
    remaining, rows = logits.numpy().copy(), np.arange(len(logits))  # torch's topk takes ten times as long
    found = np.empty((len(remaining), count), np.int32)
    logprobs = np.empty((len(remaining), count), np.float32)
    logsumexp = np.log(np.exp(remaining - remaining.max(-1, keepdims=True)).sum(-1)) + remaining.max(-1)
    for rank in range(count):
        found[:, rank] = best = remaining.argmax(-1)
        logprobs[:, rank] = remaining[rows, best] - logsumexp
        remaining[rows, best] = -np.inf
    return Alternatives(found, logprobs)


@torch.inference_mode()
def describe(logits: Tensor, choice: Tensor, processed: Tensor | None, rows: PassRows) -> Floats:
    """Compute the statistics of these choices, in the order of ``Verification``: (5, rows) on the host."""
    logits = logits.float()
    offers, above = rows.tokens.long(), rows.parents.long()
    best = choice if processed is None else likeliest(logits)
    masses, first = logits.softmax(-1), best[:, None]
    top = logits.gather(-1, first)[:, 0]
    total = top - masses.gather(-1, first)[:, 0].log()  # log of the sum of exponentials
    entropy = (total - torch.linalg.vecdot(masses, logits)).clamp_(min=0)
    offered = logits[above, offers] - total[above]
    if processed is None:
        logprobs, processed_offer = top - total, torch.where(offers == choice[above], 0.0, -torch.inf)
    else:
        logprobs, processed_offer = logits.gather(-1, choice[:, None])[:, 0] - total, processed[above, offers]
    second = logits.scatter(-1, first, -torch.inf).amax(-1)
    statistics: Floats = torch.stack([logprobs, entropy, top - second, offered, processed_offer]).cpu().numpy()
    statistics[3:, 0] = 0
    return statistics


def _greedy_on_cpu(logits: Floats, best: Integers, tokens: Integers, parents: Integers) -> Verification:
    """Compute the same in numpy, in a fifth of the time, and without making Python threads wait for each other."""
    rows = max(1, LOGITS_PER_BATCH // logits.shape[-1])
    batches = [_row_statistics(logits[start:start + rows], best[start:start + rows])
               for start in range(0, len(logits), rows)]
    top, total, entropy, gap = np.concatenate(batches, axis=1)
    logprobs = 0 - np.log(total)
    offered = logits[parents, tokens] - top[parents] + logprobs[parents]
    processed_offer = np.where(tokens == best[parents], np.float32(0), np.float32(-np.inf))
    offered[0] = processed_offer[0] = 0
    return Verification(best, logprobs, entropy, gap, offered, processed_offer)


def _row_statistics(logits: Floats, best: Integers) -> Floats:
    """Return (4, rows) float32: largest logit, sum of exponentials relative to it, entropy, gap to the second."""
    every = np.arange(len(best))
    top = logits[every, best]
    below = logits - top[:, None]
    masses = np.exp(below)
    total = masses.sum(-1)
    entropy = np.maximum(np.log(total) - np.vecdot(masses, below) / total, 0)
    below[every, best] = -np.inf
    return np.stack([top, total, entropy, -below.max(-1)])
