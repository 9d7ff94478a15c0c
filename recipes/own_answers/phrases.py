"""Counts the phrases of a target's own answers into the table that a drafter reads.

    python -m recipes.own_answers.phrases --drafter phrases
    python -m recipes.own_answers.phrases --drafter code

A written token has half the weight and the target's own distribution there the other half, so that a single observation
of a context already gives a distribution. Longer contexts back off to shorter ones, which count as a prior.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from engine.checkpoints.files import read_config
from engine.drafters.phrases import MAX_CONTEXT, STEPS_PER_NAT, TOKEN_BITS, PhraseOrder
from engine.requests.rig_names import RIGS_FOLDER
from recipes.own_answers.shards import FeatureShard, open_shard, target_folder, work_folder
from recipes.training import FACTS

WRITTEN_TOKEN_WEIGHT = 0.5  # the written token's share of the weight; the rest goes by the target's distribution
MIN_PROBABILITY = 0.02  # of the target's distribution; less is not counted
MAX_NEXT_TOKENS = 12  # next tokens of a context
BACKOFF_CELLS = 32  # next tokens of a shorter context that a longer one backs off to
MIN_KEPT_PROBABILITY = 1e-4  # of a next token, unless it is its context's likeliest
PRIOR = (16.0, 4.0, 2.0)  # the weight of the next shorter context in observations, by the context's length

FENCE = 3725  # three backquotes in SmolLM2's vocabulary

Keys = NDArray[np.uint64]
Selector = Callable[[FeatureShard, NDArray[np.int64]], bool]


def is_code(shard: FeatureShard, conversation: NDArray[np.int64]) -> bool:
    """Return whether an answer holds a fenced block."""
    start, prompt, length = conversation
    return bool((shard.tokens[start + prompt:start + length] == FENCE).any())


def is_prose(shard: FeatureShard, conversation: NDArray[np.int64]) -> bool:
    """Return whether it holds none."""
    return not is_code(shard, conversation)


SELECTORS: Mapping[str, Selector | None] = MappingProxyType({"phrases": None, "prose": is_prose, "code": is_code})


@dataclass(frozen=True, eq=False)
class PhraseCounts:
    """Weighted observations of a next token after a context: keys of contexts, next tokens and weights, all (n,)."""

    keys: Keys
    tokens: NDArray[np.uint64]
    weights: NDArray[np.float64]

    def summed(self) -> PhraseCounts:
        """Return each pair of context and token once, by context and then by token."""
        if not len(self.keys):
            return self
        order = np.lexsort((self.tokens, self.keys))
        keys, tokens = self.keys[order], self.tokens[order]
        new = (keys[1:] != keys[:-1]) | (tokens[1:] != tokens[:-1])
        firsts = np.flatnonzero(np.concatenate([[True], new]))
        return PhraseCounts(keys[firsts], tokens[firsts], np.add.reduceat(self.weights[order], firsts))

    def totals(self) -> tuple[Keys, NDArray[Any], NDArray[Any]]:
        """Return the distinct contexts (m,), the index among them of each observation's context (n,), and the sum of
        weights of each context (m,). Keys have to ascend."""
        keys, context = np.unique(self.keys, return_inverse=True)
        return keys, context, np.bincount(context, self.weights)


def observations(shard: FeatureShard, order: int, selector: Selector | None) -> Iterator[PhraseCounts]:
    """Yield the observations of contexts of ``order`` tokens in each selected conversation of a shard."""
    for conversation in shard.conversations:
        if selector is not None and not selector(shard, conversation):
            continue
        start, prompt, length = conversation.tolist()
        first = max(start + prompt - 1, start + order - 1)  # the last token of the first context
        positions = np.arange(first, start + length - 1)
        tokens = shard.tokens[start:start + length].astype(np.uint64)
        keys = np.zeros(len(positions), np.uint64)
        for back in range(order):
            keys |= tokens[positions - start - back] << np.uint64(TOKEN_BITS * back)
        shares = np.exp(shard.logprobs[positions].astype(np.float64))
        row, cell = np.nonzero(shares >= MIN_PROBABILITY)
        yield PhraseCounts(
            np.concatenate([keys, keys[row]]),
            np.concatenate([tokens[positions - start + 1], shard.likely[positions][row, cell].astype(np.uint64)]),
            np.concatenate([np.full(len(keys), WRITTEN_TOKEN_WEIGHT), (1 - WRITTEN_TOKEN_WEIGHT) * shares[row, cell]]))


def concatenate(parts: Sequence[PhraseCounts]) -> PhraseCounts:
    """Return all these observations as one; empty for none."""
    return PhraseCounts(*(
        np.concatenate([np.zeros(0, dtype), *(getattr(part, name) for part in parts)])
        for name, dtype in (("keys", np.uint64), ("tokens", np.uint64), ("weights", np.float64))))


def backoff_probabilities(observed: PhraseCounts, shorter: PhraseCounts | None, order: int) -> PhraseCounts:
    """Return the probabilities of contexts of ``order`` tokens, given those of the contexts that are one token
    shorter."""
    prior = PRIOR[order - 1]
    keys, context, totals = observed.totals()
    weights = totals + prior
    parts = [PhraseCounts(observed.keys, observed.tokens, observed.weights / weights[context])]
    if shorter is not None:
        parts.append(_backed_off(keys & np.uint64((1 << TOKEN_BITS * (order - 1)) - 1), keys, shorter, prior / weights))
    return concatenate(parts).summed()


def _backed_off(short: Keys, keys: Keys, shorter: PhraseCounts, shares: NDArray[np.float64]) -> PhraseCounts:
    """Return the weights that each context gets from the one without its first token, whose key is ``short``."""
    first = np.searchsorted(shorter.keys, short)
    counts = np.searchsorted(shorter.keys, short, side="right") - first
    owner = np.repeat(np.arange(len(keys)), counts)
    cells = first[owner] + np.arange(len(owner)) - (counts.cumsum() - counts)[owner]
    return PhraseCounts(keys[owner], shorter.tokens[cells], shorter.weights[cells] * shares[owner])


def cut_to_likeliest(observed: PhraseCounts, cells: int) -> PhraseCounts:
    """Return the best cells of each context, likeliest first, the lower token first among equals."""
    order = np.lexsort((observed.tokens, -observed.weights, observed.keys))
    keys, tokens, weights = observed.keys[order], observed.tokens[order], observed.weights[order]
    begins = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    rank = np.arange(len(keys)) - np.repeat(begins, np.diff([*begins, len(keys)]))
    kept = (rank < cells) & ((weights >= MIN_KEPT_PROBABILITY) | (rank == 0))
    return PhraseCounts(keys[kept], tokens[kept], weights[kept])


def pack_order(observed: PhraseCounts) -> PhraseOrder:
    """Return the cells in the table's format."""
    keys, counts = np.unique(observed.keys, return_counts=True)
    codes = np.clip(np.rint(-STEPS_PER_NAT * np.log(observed.weights)), 0, 255).astype(np.uint8)
    kind = np.uint16 if int(observed.tokens.max()) < 2**16 else np.uint32
    return PhraseOrder(keys, counts.cumsum().astype(np.uint32), observed.tokens.astype(kind), codes)


def orders_of(shards: Sequence[FeatureShard], selector: Selector | None = None) -> list[PhraseOrder]:
    """Return the table's orders."""
    orders: list[PhraseOrder] = []
    shorter: PhraseCounts | None = None
    for order in range(1, MAX_CONTEXT + 1):
        by_shard = [concatenate(list(observations(shard, order, selector))).summed() for shard in shards]
        observed = concatenate(by_shard).summed()
        if not len(observed.keys):
            break
        shorter = cut_to_likeliest(backoff_probabilities(observed, shorter, order), BACKOFF_CELLS)
        orders.append(pack_order(cut_to_likeliest(shorter, MAX_NEXT_TOKENS)))
    return orders


def answer_tokens(shards: Sequence[FeatureShard], selector: Selector | None = None) -> int:
    """Count the tokens of the selected answers."""
    return sum(int(conversation[2] - conversation[1]) for shard in shards for conversation in shard.conversations
               if selector is None or selector(shard, conversation))


def export(orders: Sequence[PhraseOrder], out: Path, vocabulary: int, facts: dict[str, Any]) -> None:
    """Write config.json, model.safetensors and training.json."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(
        {"architectures": ["PhraseTable"], "model_type": "phrase_table", "vocab_size": vocabulary}, indent=2) + "\n")
    arrays = {f"{name}{number}": getattr(order, name) for number, order in enumerate(orders, 1)
              for name in ("keys", "ends", "tokens", "codes")}
    save_file(arrays, out / "model.safetensors")
    (out / FACTS).write_text(json.dumps(facts, indent=1) + "\n")


def main() -> None:
    """Count the phrases and export the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafter", choices=tuple(SELECTORS), default="phrases")
    parser.add_argument("--rig", default="smollm2")
    parser.add_argument("--out", type=Path, help="a folder (default: the rig's own)")
    args = parser.parse_args()
    selector, folder = SELECTORS[args.drafter], work_folder(args.rig) / "features"
    shards = [open_shard(path) for path in sorted(folder.iterdir()) if path.suffix != ".part"]
    orders = orders_of(shards, selector)
    if not orders:
        parser.error(f"no answer of {args.rig} is one that {args.drafter} counts; let it write more of them")
    out = args.out or RIGS_FOLDER / args.rig / args.drafter
    counts = {"answer_tokens": answer_tokens(shards, selector), "contexts": [len(order.keys) for order in orders],
              "cells": [len(order.tokens) for order in orders]}
    export(orders, out, int(read_config(target_folder(args.rig))["vocab_size"]), counts)
    print(f"{out}: {counts}, {(out / 'model.safetensors').stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
