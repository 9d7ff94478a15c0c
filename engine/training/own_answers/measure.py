"""Measures τ of a drafter over held-out conversations without running the target, whose outputs are on disk.

    python -m engine.training.own_answers.measure --drafter assets/smollm2/phrases --nodes 8 16 64

Greedy rounds are a walk over a text that is known: from each anchor the drafter proposes, its chain or its tree is
followed as far as the text goes with it, and the next anchor is the bonus token's place. The figures are those of
``engine.bench`` up to the rounding of the features, which it takes in the rig's own precision.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from engine.builders.best_first import best_first
from engine.builders.chain import chain
from engine.drafters.dflash.checkpoint import drafter_config, drafter_weights
from engine.drafters.dflash.marginals import marginals
from engine.drafters.dflash.model import DFlashModel
from engine.drafters.phrases.checkpoint import phrases, read_table
from engine.drafters.phrases.drafter import PhraseDrafter
from engine.records import DraftTree, Lattice
from engine.runtime.checkpoints.files import filled, load_weights, read_config
from engine.training.arithmetic import fast_products
from engine.training.blocks import Blocks
from engine.training.denoising import Trainee
from engine.training.own_answers.features import FeatureShard, from_bits, open_shard
from engine.training.places import HELD_OUT, target_folder, work_folder

WIDTH = 64
TOGETHER = 64  # anchors whose logits are made in one product
Build = Callable[[Lattice, int, int], DraftTree]


@dataclass(frozen=True)
class Span:
    """A conversation in a shard: where it begins, and the tokens of its prompt and of the whole."""

    start: int
    prompt: int
    whole: int


Proposer = Callable[[FeatureShard, Span, int], list[Lattice]]  # for so many nodes, after each token of the answer


@dataclass(frozen=True)
class Scores:
    """Tokens committed per round, the root included, by a chain and by the tree of ``nodes``; rounds of the latter."""

    chain: float
    tree: float
    rounds: int


def accepted(tree: DraftTree, text: NDArray[np.int64]) -> int:
    """How many drafted nodes in a row the text agrees with; ``text`` begins after the root."""
    node = 0
    for count, token in enumerate(text):
        below = np.flatnonzero((tree.parents == node) & (tree.tokens == token))
        below = below[below > 0]
        if len(below) == 0:
            return count
        node = int(below[0])
    return len(text)


def walked(lattices: Sequence[Lattice], text: NDArray[np.int64], build: Build, nodes: int) -> list[int]:
    """Tokens kept in each round, from the first to the last."""
    place, kept = 0, []
    while place < len(text):
        tree = build(lattices[place], int(text[place]), nodes)
        count = 1 + accepted(tree, text[place + 1:])
        kept.append(count)
        place += count
    return kept


@torch.no_grad()
def lattices_of(trainee: Trainee, shard: FeatureShard, start: int, anchors: NDArray[np.int64]) -> list[Lattice]:
    """The drafter's proposals after each token at ``anchors`` of the conversation from ``start``."""
    end = start + int(anchors[-1]) + 1
    tokens, features = shard.tokens[start:end].astype(np.int64), from_bits(shard.taps[start:end])[None]
    anchors = anchors[None]
    slots = trainee.drafter.config.block_size
    empty = np.zeros((1, anchors.size, slots - 1))
    blocks = Blocks(tokens[anchors], anchors, empty.astype(np.int64), empty.astype(np.float32))
    states = trainee.denoised(features.to(trainee.embedding.dtype), blocks).unflatten(0, (-1, slots - 1))
    return [marginals(logits, WIDTH) for some in states.split(TOGETHER)
            for logits in torch.nn.functional.linear(some, trainee.embedding)]


def by_block(trainee: Trainee) -> Proposer:
    """A block-diffusion drafter's proposals, which are the same for every budget."""
    def proposed(shard: FeatureShard, span: Span, nodes: int) -> list[Lattice]:
        return lattices_of(trainee, shard, span.start, np.arange(span.prompt, span.whole))
    return proposed


def by_phrases(drafter: PhraseDrafter) -> Proposer:
    """A phrase drafter's proposals, once it has read the text up to there."""
    def proposed(shard: FeatureShard, span: Span, nodes: int) -> list[Lattice]:
        tokens = shard.tokens[span.start:span.start + span.whole]
        drafter.begin(span.whole)
        drafter.observe(tokens[:span.prompt], None)
        found = []
        for token in tokens[span.prompt:]:
            found.append(drafter.draft(int(token), nodes))
            drafter.observe(np.array([token]), None)
        return found
    return proposed


def scores(propose: Proposer, shard: FeatureShard, talks: NDArray[np.int64], nodes: int, end_id: int) -> Scores:
    """Measure over some conversations of a shard; an ``end_id`` that ends one is not part of the text."""
    chains: list[int] = []
    trees: list[int] = []
    for start, prompt, whole in talks.tolist():
        ended = shard.tokens[start + whole - 1] == end_id
        span = Span(start, prompt, whole - ended)
        text = shard.tokens[start + prompt:start + span.whole].astype(np.int64)
        lattices = propose(shard, span, nodes)
        chains += walked(lattices, text, chain, nodes)
        trees += walked(lattices, text, best_first, nodes)
    return Scores(float(np.mean(chains)), float(np.mean(trees)), len(trees))


def end_of(rig: str) -> int:
    """The token that ends an answer of a rig's target."""
    return int(read_config(target_folder(rig))["eos_token_id"])


def proposer(folder: Path, rig: str) -> Proposer:
    """The drafter of a folder."""
    config = read_config(folder)
    if phrases.recognises(config):
        vocabulary = int(config["vocab_size"])
        return by_phrases(PhraseDrafter(vocabulary, read_table(folder, vocabulary)))
    return by_block(load_trainee(folder, load_weights(target_folder(rig))["model.embed_tokens.weight"]))


def load_trainee(folder: Path, embedding: torch.Tensor) -> Trainee:
    """An exported drafter in float32 with the target's embedding."""
    config = drafter_config(folder)
    model = DFlashModel(config)
    filled(model, drafter_weights(folder), folder)
    return Trainee(model.float().eval(), embedding.float(), config.dflash_config["mask_token_id"])


def main() -> None:
    """Measure a drafter and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafter", "--head", type=Path, required=True, help="the folder of an exported drafter")
    parser.add_argument("--rig", default="smollm2")
    parser.add_argument("--nodes", type=int, nargs="+", default=[64])
    parser.add_argument("--limit", type=int, help="conversations (default: all that are held out)")
    choice = parser.parse_args()
    propose, end_id = proposer(choice.drafter, choice.rig), end_of(choice.rig)
    shard = open_shard(work_folder(choice.rig) / HELD_OUT)
    for nodes in choice.nodes:
        with fast_products():
            found = scores(propose, shard, shard.talks[:choice.limit], nodes, end_id)
        print(f"chain {found.chain:.3f}, tree of {nodes} {found.tree:.3f}, ratio {found.tree / found.chain:.2f}, "
              f"{found.rounds} rounds", flush=True)


if __name__ == "__main__":
    main()
