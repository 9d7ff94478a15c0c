"""Bounds of the numbers that a person may choose, the budgets to try, and a sentence for any other number."""

from __future__ import annotations

from engine.errors import RequestError
from engine.records import Sampling

MOST_NODES = 4096  # a pass over more rows than this is a prefill, not a draft tree
MOST_TOKENS = 1_000_000  # of one text: more than any model's context
COLDEST, HOTTEST = 0.01, 100.0  # beyond these, logits over temperature overflow float32, or are all alike
LARGEST = 2**63 - 1  # of a seed or top-k: what a trace file and a tensor can hold
MOST_REPEATS = 1000
TRIED_BUDGETS = (0, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MOST_TOGETHER = 64  # requests at once: every one of them holds a cache
TRIED_TOGETHER = (1, 2, 4, 8, 16)


def check_budget(budget: int) -> None:
    """RequestError for a node budget outside the bounds."""
    if not 0 <= budget <= MOST_NODES:
        raise RequestError(f"The node budget is {budget}; it has to lie between 0 and {MOST_NODES}.")


def check_together(requests: int) -> None:
    """RequestError for a number of requests that cannot be answered at once."""
    if not 1 <= requests <= MOST_TOGETHER:
        raise RequestError(f"The requests at once are {requests}; they have to lie between 1 and {MOST_TOGETHER}.")


def check_max_tokens(max_tokens: int) -> None:
    """RequestError for a length that no text can have."""
    if max_tokens < 1:
        raise RequestError(f"max_tokens is {max_tokens}; it has to be 1 or more.")
    if max_tokens > MOST_TOKENS:
        raise RequestError(f"max_tokens is {max_tokens}; it has to be at most {MOST_TOKENS}.")


def check_seed(seed: int) -> None:
    """RequestError for a number that cannot be a seed."""
    if seed < 0:
        raise RequestError(f"The seed is {seed}; it has to be 0 or more.")
    if seed > LARGEST:
        raise RequestError(f"The seed is {seed}; it has to be less than 2**63.")


def check_sampling(sampling: Sampling) -> None:
    """RequestError for a number that sampling cannot use."""
    if sampling.temperature != 0 and not COLDEST <= sampling.temperature <= HOTTEST:
        raise RequestError(f"The temperature is {sampling.temperature}; it has to be 0 or a number from {COLDEST:g} to "
                           f"{HOTTEST:g}.")
    if sampling.top_k < 0:
        raise RequestError(f"top-k is {sampling.top_k}; it has to be 0 (no cut) or more.")
    if sampling.top_k > LARGEST:
        raise RequestError(f"top-k is {sampling.top_k}; it has to be less than 2**63.")
    if not 0 < sampling.top_p <= 1:
        raise RequestError(f"top-p is {sampling.top_p}; it has to lie above 0 and be at most 1.")
    check_seed(sampling.seed)
