"""Trains a rig's small language model, which drafts token by token and sees its path, on the target's own answers.

    python -m engine.training.own_answers.small --rig smollm2

Some of the target's own layers around the target's own embedding: only the layers are trained and kept. It learns
the target's distributions, which lie on disk beside the answers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from engine.drafters.autoregressive.borrowing import BORROWED, LENDER
from engine.runtime.checkpoints.loading import load_causal
from engine.trace.written_names import written
from engine.training.denoising import Course, train_drafter
from engine.training.guessing import Distributions, Guesses, guess_loss
from engine.training.own_answers.drafters import EXPORT_EVERY, OwnRecipe, RunningMean
from engine.training.own_answers.reading import AnswerShards, choices, frequent
from engine.training.places import target_folder, work_folder
from engine.training.rates import optimizers
from engine.training.target import SAVE_EVERY, Run, write_facts

NAME = "small"


@dataclass(frozen=True)
class LayerRecipe(OwnRecipe):
    """A drafter's recipe; ``begun_from`` are the target's layers that become its own. There are no blocks, so
    ``anchors`` and ``block`` mean nothing here."""

    drafter: str = NAME
    steps: int = 6000
    matrix_rate: float = 1.5e-3
    other_rate: float = 1.5e-3
    distribution_share: float = 0.7
    begun_from: tuple[int, ...] = (0, 29)


def some_layers(target: PreTrainedModel, places: tuple[int, ...]) -> PreTrainedModel:
    """The target with only those layers; the rest of its weights are frozen."""
    model: Any = target
    model.model.layers = nn.ModuleList(model.model.layers[place] for place in places)
    for number, layer in enumerate(model.model.layers):
        layer.self_attn.layer_idx = number
    model.config.num_hidden_layers = len(places)
    model.get_input_embeddings().weight.requires_grad_(False)
    return target.train()


class LayerLessons:
    """The loss of each step: every token of the answers, after those before it."""

    def __init__(self, model: PreTrainedModel, folder: Path, recipe: LayerRecipe) -> None:
        self.model: Any = model
        self.recipe = recipe
        self.library = AnswerShards(folder)
        self._frequent = frequent(self.library, recipe.choices)

    def loss(self, step: int) -> Tensor:
        """The loss of this step."""
        recipe = self.recipe
        reading = self.library.reading(recipe.rows, step, tapped=False)
        tokens, answer = reading.batch.tokens, reading.batch.answer
        states = self.model.model(input_ids=torch.from_numpy(tokens), use_cache=False).last_hidden_state
        before = np.flatnonzero(answer[:, 1:].ravel())
        labels = tokens[:, 1:].ravel()[before]
        likely = reading.likely[:, :-1].reshape(-1, reading.likely.shape[-1])[before]
        logprobs = reading.logprobs[:, :-1].reshape(-1, reading.logprobs.shape[-1])[before]
        told = Distributions(likely, logprobs, share=recipe.distribution_share)
        chosen = states[:, :-1].flatten(0, 1)[torch.from_numpy(before)]
        whole = step >= recipe.steps - recipe.whole_steps
        some = None if whole else choices(labels, self._frequent, recipe.choices)
        weights = np.ones(len(labels), np.float32)
        return guess_loss(chosen, self.model.get_input_embeddings().weight, Guesses(labels, weights, told, some))


def export_layers(model: Any, weights: Mapping[str, Tensor], out: Path, facts: Mapping[str, Any]) -> None:
    """The layers and the final norm in bfloat16, under a config that borrows the embedding."""
    out.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(out)
    said = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(said | {BORROWED: LENDER}, indent=2) + "\n")
    own = {f"model.{name}": value.to(torch.bfloat16).contiguous() for name, value in weights.items()}
    save_file(own, out / "model.safetensors", metadata={"format": "pt"})
    write_facts(out, dict(facts), None)


def train_small(recipe: LayerRecipe, rig: str, out: Path | None) -> None:
    """Train to the recipe's last step, or go on, and export."""
    torch.manual_seed(0)
    work = work_folder(rig)
    model = some_layers(load_causal(target_folder(rig), torch.float32, torch.device("cpu")), recipe.begun_from)
    run = Run(model, optimizers(model, recipe), work / recipe.drafter)
    run.resume()
    run.folder.mkdir(parents=True, exist_ok=True)
    trained = nn.ModuleDict({"layers": model.model.layers, "norm": model.model.norm})
    mean = RunningMean(trained, recipe.mean_over, run.folder / "mean.safetensors")
    lessons = LayerLessons(model, work / "features", recipe)

    def export(loss: float, place: Path) -> None:
        export_layers(model, mean.weights, place, {
            "recipe": written(recipe), "parameters": sum(value.numel() for value in mean.weights.values()),
            "steps": run.step, "training_seconds": round(run.seconds),
            "answer_tokens": lessons.library.answer_tokens(), "final_loss_nats": round(loss, 4)})

    def after(step: int, loss: float) -> None:
        mean.take(step)
        if step % EXPORT_EVERY == 0:
            export(loss, run.folder / "head")
        if step % SAVE_EVERY == 0:
            print(f"step {step}: {loss:.4f} nats, {run.seconds / step:.2f} s a step", flush=True)
    course = Course(recipe.drafter, recipe, lessons.loss, lambda: optimizers(model, recipe), after=after)
    export(train_drafter(run, course), out or run.folder / "head")


def main() -> None:
    """Train and export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", default="smollm2")
    parser.add_argument("--steps", type=int, default=LayerRecipe.steps)
    parser.add_argument("--rows", type=int, default=LayerRecipe.rows)
    parser.add_argument("--layers", type=int, nargs="+", default=list(LayerRecipe.begun_from))
    parser.add_argument("--out", type=Path)
    choice = parser.parse_args()
    recipe = LayerRecipe(steps=choice.steps, rows=choice.rows, begun_from=tuple(choice.layers))
    train_small(recipe, choice.rig, choice.out)


if __name__ == "__main__":
    main()
