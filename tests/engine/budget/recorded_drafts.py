"""The drafts at every position of texts that targets wrote, and the nodes that were right: rounds can be replayed,
with any budget policy, without a model.

    python -m tests.engine.budget.recorded_drafts smollm2 people 24
    python -m tests.engine.budget.recorded_drafts demo bench 14

write the files again: arrays chances (positions, NODES) uint8, −16 times the log probability of the best-first tree's
nodes; kept (positions,) uint32, a bit for each of them that the text goes through; ends (texts,) where each text ends.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import AUTO, BudgetPolicy, cut_trees
from engine.decoding.tree import from_nodes, prefix
from engine.records import Acceptance, DraftTree, Floats, Integers
from tests.engine.helpers import decode

FOLDER = Path(__file__).with_name("drafts")
NODES = 32
STEPS = 16  # units per nat
BUILD_MS = 0.015  # per node


@dataclass(frozen=True, eq=False)
class DraftedText:
    """Hold logprobs (positions, NODES) float32, descending in a row, and kept (positions, NODES) bool."""

    logprobs: Floats
    kept: Integers

    def tree(self, position: int, nodes: int) -> DraftTree:
        """Return a tree with the drafted probabilities; its parents are not the drafted ones."""
        parents = np.zeros(nodes, np.int32)
        return from_nodes(0, parents, parents, self.logprobs[position, :nodes])

    def keep(self, position: int, tree: DraftTree) -> Integers:
        """Return the nodes that a round keeps of a tree, the root first, up to the end of the text."""
        drafted = 1 + np.flatnonzero(self.kept[position, :len(tree) - 1])
        return np.concatenate([[0], drafted[:len(self.kept) - position - 1]]).astype(np.int32)


def drafted_texts(rig: str) -> list[DraftedText]:
    """Return all recorded texts of a rig."""
    with np.load(FOLDER / f"{rig}.npz") as arrays:
        logprobs = arrays["chances"].astype(np.float32) / -STEPS
        kept = arrays["kept"][:, None] >> np.arange(NODES, dtype=np.uint32) & 1
        of_text = np.split(np.arange(len(kept)), arrays["ends"][:-1])
    return [DraftedText(logprobs[rows], kept[rows]) for rows in of_text]


def milliseconds(text: DraftedText, policy: BudgetPolicy, curve: CostCurve,
                 record: Callable[[Mapping[str, float]], None] | None = None) -> float:
    """Return the milliseconds of a text's rounds; ``record`` gets each round's seconds by stage."""
    position, spent = 0, 0.0
    while position < len(text.kept):
        drafters, built = policy.plan(1, NODES)
        (tree,) = cut_trees([policy], [text.tree(position, built if drafters else 0)])
        keep = text.keep(position, tree)
        policy.learn(tree, Acceptance(keep, 0))
        round_ms = curve.round_ms(len(tree), built, drafters, BUILD_MS * built)
        spent += round_ms
        if record:
            draft_ms = drafters * curve.draft_at(built)
            record({"draft": draft_ms / 1e3, "verify": (round_ms - draft_ms) / 1e3})
        position += len(keep)
    return spent


class RecordingPolicy(BudgetPolicy):
    """Record the draft of every round and verify none of it, so the text is that of plain decoding."""

    def __init__(self) -> None:
        self.trees: list[DraftTree] = []

    def cut(self, policies: Sequence[Any], trees: Sequence[DraftTree], others: Sequence[DraftTree]) -> list[DraftTree]:
        self.trees += trees
        return [prefix(tree, 0) for tree in trees]

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        assert len(acceptance.keep) == 1


def write_file(rig: str, prompts: str, limit: int, tokens: int = 99) -> None:
    """Write a file from a rig's answers."""
    from engine.lab.settings import prompt_set
    from engine.models.device import rounds_in_inference_mode
    from engine.records import PromptRequest
    from engine.serving.rigs import load_rig
    live, columns, ends = load_rig(rig, "float32"), list[tuple[Integers, int]](), list[int]()
    asked = prompt_set(prompts, None)
    for prompt in asked[::max(1, len(asked) // limit)][:limit]:
        ask = PromptRequest(prompt.text, method="ddtree", budget=NODES, max_tokens=tokens, pace=AUTO)
        drafters, looking = live.drafters_for("ddtree"), RecordingPolicy()
        rounds = decode(live.prepare(ask).request, live.target, list(drafters.values()), looking)
        written = [int(round_.tree.tokens[0]) for round_ in rounds_in_inference_mode(rounds)]
        columns += _columns(looking.trees, written)
        ends.append(len(columns))
    chances, kept = zip(*columns, strict=True)
    FOLDER.mkdir(exist_ok=True)
    np.savez_compressed(FOLDER / f"{rig}.npz", chances=np.asarray(chances, np.uint8),
                        kept=np.asarray(kept, np.uint32), ends=np.asarray(ends, np.int32))


def _columns(trees: list[DraftTree], written: list[int]) -> Iterator[tuple[Integers, int]]:
    for position, tree in enumerate(trees[:len(written)]):
        node, bits = 0, 0
        for token in written[position + 1:]:
            below = np.flatnonzero((tree.parents == node) & (tree.tokens == token))
            node = int(below[below > node].min(initial=len(tree)))
            if node >= len(tree):
                break
            bits |= 1 << node - 1
        codes = np.full(NODES, 255)
        codes[:len(tree) - 1] = np.clip(np.rint(-STEPS * tree.logprobs[1:]), 0, 255)
        yield codes, bits


if __name__ == "__main__":
    write_file(sys.argv[1], sys.argv[2], int(sys.argv[3]))
