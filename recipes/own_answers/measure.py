"""Measures τ of a drafter over held-out conversations without running the target, whose outputs are on disk.

    python -m recipes.own_answers.measure --drafter assets/smollm2/phrases --nodes 8 16 64

Greedy rounds are a walk over a text that is known: from each anchor the drafter proposes, its chain or its tree is
followed as far as the text goes with it, and the next anchor is the bonus token's place. The figures are those of
``bench``.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.checkpoints.files import read_config
from engine.drafters.phrases import PhraseDrafter, read_table
from engine.lab.replay import KnownText, Replay
from engine.lab.settings import Setting
from engine.records import Integers, Lattice
from recipes.own_answers.shards import HELD_OUT, FeatureShard, open_shard, target_folder, work_folder

CHAIN, TREE = "dflash", "ddtree"  # the methods that are replayed


@dataclass(frozen=True)
class Scores:
    """Tokens committed per round, the root included, by a chain and by the tree of ``nodes``; rounds of the latter."""

    chain: float
    tree: float
    rounds: int


def proposals(drafter: PhraseDrafter, prompt: Integers, text: Integers, nodes: int) -> list[Lattice]:
    """Return what a drafter proposes for so many nodes after each token of the text, having read up to there."""
    drafter.begin(len(prompt) + len(text))
    drafter.observe(prompt, None)
    lattices = []
    for token in text:
        lattices.append(drafter.draft(int(token), nodes))
        drafter.observe(np.array([token]), None)
    return lattices


def scores(drafter: PhraseDrafter, shard: FeatureShard, conversations: NDArray[np.int64], nodes: int,
           end_id: int) -> Scores:
    """Measure over some conversations of a shard; an ``end_id`` that ends one is not part of the text."""
    kept: dict[str, list[int]] = {CHAIN: [], TREE: []}
    for start, prompt, length in conversations.tolist():
        tokens = shard.tokens[start:start + length]
        text = tokens[prompt:length - int(tokens[-1] == end_id)]
        lattices = proposals(drafter, tokens[:prompt], text, nodes)
        limit = length + nodes  # room for every proposal
        known_text = KnownText(text, prompt, limit, {"phrases": dict(enumerate(lattices))}, nodes)
        for method in (CHAIN, TREE):
            steps = Replay(Setting(method, drafters=("phrases",)), known_text).steps(nodes)
            kept[method] += [len(step.keep) for step in steps]
    return Scores(float(np.mean(kept[CHAIN])), float(np.mean(kept[TREE])), len(kept[TREE]))


def end_of(rig: str) -> int:
    """Return the token that ends an answer of a rig's target."""
    return int(read_config(target_folder(rig))["eos_token_id"])


def phrase_drafter(folder: Path) -> PhraseDrafter:
    """Return the drafter of a folder."""
    vocabulary = int(read_config(folder)["vocab_size"])
    return PhraseDrafter(vocabulary, read_table(folder, vocabulary))


def main() -> None:
    """Measure a drafter and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafter", "--head", type=Path, required=True, help="the folder of an exported drafter")
    parser.add_argument("--rig", default="smollm2")
    parser.add_argument("--nodes", type=int, nargs="+", default=[64])
    parser.add_argument("--limit", type=int, help="conversations (default: all that are held out)")
    args = parser.parse_args()
    drafter, end_id = phrase_drafter(args.drafter), end_of(args.rig)
    shard = open_shard(work_folder(args.rig) / HELD_OUT)
    for nodes in args.nodes:
        score = scores(drafter, shard, shard.conversations[:args.limit], nodes, end_id)
        print(f"chain {score.chain:.3f}, tree of {nodes} {score.tree:.3f}, ratio {score.tree / score.chain:.2f}, "
              f"{score.rounds} rounds", flush=True)


if __name__ == "__main__":
    main()
