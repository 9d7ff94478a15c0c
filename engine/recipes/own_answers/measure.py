"""Measures τ of a drafter over held-out conversations without running the target, whose outputs are on disk.

    python -m engine.recipes.own_answers.measure --drafter assets/smollm2/phrases --nodes 8 16 64

Greedy rounds are a walk over a text that is known: from each anchor the drafter proposes, its chain or its tree is
followed as far as the text goes with it, and the next anchor is the bonus token's place. The figures are those of
``bench``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.checkpoints.files import read_config
from engine.decoding.builders.best_first import best_first
from engine.decoding.builders.chain import chain
from engine.drafters.phrases.checkpoint import read_table
from engine.drafters.phrases.drafter import PhraseDrafter
from engine.recipes.own_answers.shards import HELD_OUT, FeatureShard, open_shard, target_folder, work_folder
from engine.records import DraftTree, Lattice

Build = Callable[[Lattice, int, int], DraftTree]


@dataclass(frozen=True)
class Span:
    """A conversation in a shard: where it begins, and the tokens of its prompt and of the whole."""

    start: int
    prompt: int
    whole: int


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


def proposals(drafter: PhraseDrafter, shard: FeatureShard, span: Span, nodes: int) -> list[Lattice]:
    """What a drafter proposes for so many nodes after each token of the answer, having read the text up to there."""
    tokens = shard.tokens[span.start:span.start + span.whole]
    drafter.begin(span.whole)
    drafter.observe(tokens[:span.prompt], None)
    lattices = []
    for token in tokens[span.prompt:]:
        lattices.append(drafter.draft(int(token), nodes))
        drafter.observe(np.array([token]), None)
    return lattices


def scores(drafter: PhraseDrafter, shard: FeatureShard, talks: NDArray[np.int64], nodes: int, end_id: int) -> Scores:
    """Measure over some conversations of a shard; an ``end_id`` that ends one is not part of the text."""
    chains: list[int] = []
    trees: list[int] = []
    for start, prompt, whole in talks.tolist():
        ended = shard.tokens[start + whole - 1] == end_id
        span = Span(start, prompt, whole - ended)
        text = shard.tokens[start + prompt:start + span.whole].astype(np.int64)
        lattices = proposals(drafter, shard, span, nodes)
        chains += walked(lattices, text, chain, nodes)
        trees += walked(lattices, text, best_first, nodes)
    return Scores(float(np.mean(chains)), float(np.mean(trees)), len(trees))


def end_of(rig: str) -> int:
    """The token that ends an answer of a rig's target."""
    return int(read_config(target_folder(rig))["eos_token_id"])


def phrase_drafter(folder: Path) -> PhraseDrafter:
    """The drafter of a folder."""
    vocabulary = int(read_config(folder)["vocab_size"])
    return PhraseDrafter(vocabulary, read_table(folder, vocabulary))


def main() -> None:
    """Measure a drafter and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafter", "--head", type=Path, required=True, help="the folder of an exported drafter")
    parser.add_argument("--rig", default="smollm2")
    parser.add_argument("--nodes", type=int, nargs="+", default=[64])
    parser.add_argument("--limit", type=int, help="conversations (default: all that are held out)")
    choice = parser.parse_args()
    drafter, end_id = phrase_drafter(choice.drafter), end_of(choice.rig)
    shard = open_shard(work_folder(choice.rig) / HELD_OUT)
    for nodes in choice.nodes:
        score = scores(drafter, shard, shard.talks[:choice.limit], nodes, end_id)
        print(f"chain {score.chain:.3f}, tree of {nodes} {score.tree:.3f}, ratio {score.tree / score.chain:.2f}, "
              f"{score.rounds} rounds", flush=True)


if __name__ == "__main__":
    main()
