"""τ of a drafter over held-out conversations, without a pass of the target: what it would say is on disk.

    python -m engine.training.own_answers.measure --drafter assets/smollm2/chat

Greedy rounds are a walk over a text that is known: from each anchor the drafter's block is laid and denoised, its chain
or its tree is followed as far as the text goes with it, and the next anchor is the bonus token's place. The figures
are those of ``engine.bench`` up to the rounding of the features, which it takes in the rig's own precision.
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
from engine.records import DraftTree, Lattice
from engine.runtime.checkpoints.files import filled, load_weights
from engine.training.blocks import Blocks
from engine.training.denoising import Trainee
from engine.training.own_answers.features import FeatureShard, from_bits, open_shard
from engine.training.places import HELD_OUT, target_folder, work_folder

WIDTH = 64
TOGETHER = 64  # anchors whose logits are made in one product
Build = Callable[[Lattice, int, int], DraftTree]


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
    """What the drafter proposes after each of the tokens at ``anchors`` of the conversation from ``start``."""
    end = start + int(anchors[-1]) + 1
    tokens, features = shard.tokens[start:end].astype(np.int64), from_bits(shard.taps[start:end])[None]
    anchors = anchors[None]
    slots = trainee.drafter.config.block_size
    empty = np.zeros((1, anchors.size, slots - 1))
    blocks = Blocks(tokens[anchors], anchors, empty.astype(np.int64), empty.astype(np.float32))
    states = trainee.denoised(features.to(trainee.embedding.dtype), blocks).unflatten(0, (-1, slots - 1))
    return [marginals(logits, WIDTH) for some in states.split(TOGETHER)
            for logits in torch.nn.functional.linear(some, trainee.embedding)]


def scores(trainee: Trainee, shard: FeatureShard, talks: NDArray[np.int64], nodes: int) -> Scores:
    """Over some of the conversations of a shard."""
    chains: list[int] = []
    trees: list[int] = []
    for talk in talks:
        start, prompt, whole = (int(each) for each in talk)
        if shard.tokens[start + whole - 1] == trainee.drafter.config.eos_token_id:
            whole -= 1  # the end is no part of the text
        text = shard.tokens[start + prompt:start + whole].astype(np.int64)
        lattices = lattices_of(trainee, shard, start, np.arange(prompt, whole))
        chains += walked(lattices, text, chain, nodes)
        trees += walked(lattices, text, best_first, nodes)
    return Scores(float(np.mean(chains)), float(np.mean(trees)), len(trees))


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
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--limit", type=int, help="conversations (default: all that are held out)")
    choice = parser.parse_args()
    weights = load_weights(target_folder(choice.rig))
    trainee = load_trainee(choice.drafter, weights["model.embed_tokens.weight"])
    shard = open_shard(work_folder(choice.rig) / HELD_OUT)
    with torch.autocast("cpu", torch.bfloat16):  # as the rig runs
        found = scores(trainee, shard, shard.talks[:choice.limit], choice.nodes)
    print(f"chain {found.chain:.3f}, tree of {choice.nodes} {found.tree:.3f}, ratio {found.tree / found.chain:.2f}, "
          f"{found.rounds} rounds")


if __name__ == "__main__":
    main()
