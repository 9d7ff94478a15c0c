"""Trains the drafters of a rig on its target's own answers.

    python -m engine.training.own_answers.drafters --drafter chat
    python -m engine.training.own_answers.drafters --drafter code --begin-with chat

Features of the answers lie on disk (``features``), so a step costs no pass of the target. A run goes on where it was
stopped, meets the shards that came in the meantime, and exports the running mean of its weights, which at any time is
as good as the weights after a decay of the learning rate.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, Qwen3Config

from engine.drafters.dflash.model import DFlashModel
from engine.runtime.checkpoints.loading import load_causal
from engine.trace.written_names import written
from engine.training.blocks import BlockShape, lay_blocks
from engine.training.denoising import Course, DenoisingStep, Trainee, train_drafter
from engine.training.guessing import Distributions
from engine.training.own_answers.reading import AnswerShards, Wanted, choices, frequent, is_code, is_prose
from engine.training.places import target_folder, work_folder
from engine.training.rates import optimizers
from engine.training.target import SAVE_EVERY, Run, write_facts

TAPS = (1, 10, 19, 28)
MASK_ID = 0  # <|endoftext|>, which never occurs in a conversation
EXPORT_EVERY = 500  # steps
LOOK_AGAIN = 400  # steps between two looks for new shards
FIRST_SCALE = 0.3  # of the target's final norm: an untrained drafter should not be confident


@dataclass(frozen=True)
class OwnRecipe:
    """All settings of a drafter's training run."""

    drafter: str
    steps: int
    rows: int = 24
    anchors: int = 24
    block: BlockShape = field(default_factory=lambda: BlockShape(8, 4.0))
    layers: int = 2
    inner: int = 1536
    matrix_rate: float = 4e-3
    other_rate: float = 4e-3
    weight_decay: float = 0.02
    warmup_steps: int = 20
    cooldown_share: float = 0.3
    mean_over: float = 200.0  # steps
    distribution_share: float = 0.5
    choices: int = 4096
    whole_steps: int = 300  # at last, over the whole vocabulary
    taps: tuple[int, ...] = TAPS
    learns: tuple[str, ...] = ("",)  # prefixes of the tensors trained, and kept where a base has the rest
    begun_from: tuple[int, ...] = ()  # layers of the target whose weights its own layers start from

    @property
    def main_steps(self) -> int:
        """One more than all steps, since there is no finish with other data."""
        return self.steps + 1

    def rate_at(self, step: int) -> float:
        """Share of the full rate: warm up, hold, and fall linearly to nothing."""
        return min(1.0, (step + 1) / self.warmup_steps, (self.steps - step) / (self.steps * self.cooldown_share))


def drafter_config(target: PreTrainedConfig, recipe: OwnRecipe) -> Qwen3Config:
    """The published layout, with layers of the target's own shape."""
    config = Qwen3Config(
        vocab_size=target.vocab_size, hidden_size=target.hidden_size, intermediate_size=recipe.inner,
        num_hidden_layers=recipe.layers, num_attention_heads=target.num_attention_heads,
        num_key_value_heads=target.num_key_value_heads, head_dim=target.head_dim,
        rope_theta=target.rope_parameters["rope_theta"], max_position_embeddings=target.max_position_embeddings,
        tie_word_embeddings=False, bos_token_id=None, eos_token_id=target.eos_token_id,
        pad_token_id=target.pad_token_id)
    config.architectures = ["DFlashDraftModel"]
    config.block_size = recipe.block.slots
    config.num_target_layers = target.num_hidden_layers
    config.dflash_config = {"mask_token_id": MASK_ID, "target_layer_ids": list(recipe.taps)}
    return config


class RunningMean:
    """A moving average of a model's weights over the last steps, with falling weight for earlier ones."""

    def __init__(self, model: nn.Module, over: float, file: Path) -> None:
        self.model, self.over, self.file = model, over, file
        self.weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
        if file.exists():
            self.weights = load_file(file)

    @torch.no_grad()
    def take(self, step: int) -> None:
        """Move the mean towards the weights after a step; early on, it covers few steps."""
        share = max(1 / self.over, 1 / (step + 1) ** 0.75)
        for name, value in self.model.state_dict().items():
            self.weights[name].lerp_(value, share)
        if step % SAVE_EVERY == 0:
            partial_file = self.file.with_suffix(".part")
            save_file(self.weights, partial_file)
            partial_file.replace(self.file)


class Lessons:
    """The lesson of each step; new shards are looked for every ``LOOK_AGAIN`` steps."""

    def __init__(self, folder: Path, recipe: OwnRecipe, wanted: Wanted | None) -> None:
        self.folder, self.recipe, self.wanted = folder, recipe, wanted
        self._look(0)

    def _look(self, step: int) -> None:
        self._looked = step // LOOK_AGAIN
        self.library = AnswerShards(self.folder, self.wanted)
        self._frequent = frequent(self.library, self.recipe.choices)

    def lesson(self, step: int) -> DenoisingStep:
        """The lesson of this step."""
        if step // LOOK_AGAIN != self._looked:
            self._look(step)
        recipe = self.recipe
        reading = self.library.reading(recipe.rows, step)
        blocks = lay_blocks(reading.batch, recipe.anchors, step, recipe.block)
        before, rows = blocks.before_labels(reading.batch.tokens.shape[1]), np.arange(recipe.rows)[:, None, None]
        told = Distributions(reading.likely[rows, before], reading.logprobs[rows, before], recipe.distribution_share)
        whole = step >= recipe.steps - recipe.whole_steps
        some = None if whole else choices(blocks.labels, self._frequent, recipe.choices)
        return DenoisingStep(reading.taps, blocks, told, some)


def begun(target: PreTrainedModel, recipe: OwnRecipe, first: Path | None) -> DFlashModel:
    """An initial drafter: with another one's weights, or with random ones and the target's final norm."""
    model = DFlashModel(drafter_config(target.config, recipe))
    if first is not None:
        model.load_state_dict(load_file(first / "model.safetensors"))
    else:
        with torch.no_grad():
            model.norm.weight.copy_(target.model.norm.weight * FIRST_SCALE)
        for layer, place in zip(model.layers, recipe.begun_from, strict=False):
            layer.load_state_dict(target.model.layers[place].state_dict(), strict=False)
    for name, value in model.named_parameters():
        value.requires_grad_(name.startswith(recipe.learns))
    return model.float()


def export_mean(model: DFlashModel, weights: Mapping[str, Tensor], out: Path, facts: Mapping[str, Any]) -> None:
    """Write config.json, model.safetensors in bfloat16 and training.json; of a specialist, only the weights that it has
    learnt, and the name of the drafter that has the others."""
    out.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(out)
    learnt = [name for name, value in model.named_parameters() if value.requires_grad]
    if len(learnt) < len(weights):
        said = json.loads((out / "config.json").read_text())
        (out / "config.json").write_text(json.dumps(said | {"base_head": BASE}, indent=2) + "\n")
    save_file({name: weights[name].to(torch.bfloat16).contiguous() for name in learnt},
              out / "model.safetensors", metadata={"format": "pt"})
    write_facts(out, dict(facts), None)


BASE = "chat"
LEARNS: Mapping[str, tuple[str, ...]] = MappingProxyType({BASE: ("",), **dict.fromkeys(
    ("prose", "code"), ("layers.1.", "norm."))})
WANTED: Mapping[str, Wanted | None] = MappingProxyType({"chat": None, "prose": is_prose, "code": is_code})
STEPS: Mapping[str, int] = MappingProxyType({"chat": 12_000, "prose": 1_500, "code": 1_500})


def run_recipe(recipe: OwnRecipe, rig: str, first: Path | None, out: Path | None) -> None:
    """Train the drafter to its last step, or go on, and export it."""
    torch.manual_seed(0)
    work = work_folder(rig)
    target = load_causal(target_folder(rig), torch.float32, torch.device("cpu"))
    model = begun(target, recipe, first)
    run = Run(model, optimizers(model, recipe), work / recipe.drafter)
    run.resume()
    run.folder.mkdir(parents=True, exist_ok=True)
    mean = RunningMean(model, recipe.mean_over, run.folder / "mean.safetensors")
    lessons = Lessons(work / "features", recipe, WANTED[recipe.drafter.partition("-")[0]])
    trainee = Trainee(model, target.model.embed_tokens.weight.detach(), MASK_ID)
    del target

    def export(loss: float, place: Path) -> None:
        facts = {"recipe": written(recipe), "parameters": sum(value.numel() for value in model.parameters()),
                 "steps": run.step, "blocks_seen": run.step * recipe.rows * recipe.anchors,
                 "training_seconds": round(run.seconds), "answer_tokens": lessons.library.answer_tokens(),
                 "final_loss_nats": round(loss, 4)}
        export_mean(model, mean.weights, place, facts)

    def after(step: int, loss: float) -> None:
        mean.take(step)
        if step % EXPORT_EVERY == 0:
            export(loss, run.folder / "head")
        if step % SAVE_EVERY == 0:
            print(f"step {step}: {loss:.4f} nats, {run.seconds / step:.2f} s a step, "
                  f"{lessons.library.answer_tokens()} tokens of answers", flush=True)
    course = Course(recipe.drafter, recipe, lambda step: trainee(lessons.lesson(step)),
                    lambda: optimizers(model, recipe), after=after)
    export(train_drafter(run, course), out or run.folder / "head")


def main() -> None:
    """Train one drafter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafter", "--head", required=True,
                        help="chat, prose or code, with -NAME after it for a run of its own")
    parser.add_argument("--rig", default="smollm2")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--begin-with", type=Path, help="the folder of a drafter to begin with")
    parser.add_argument("--begun-from", type=int, nargs="*", default=[], help="layers of the target to begin with")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", type=int, default=OwnRecipe.rows)
    parser.add_argument("--anchors", type=int, default=OwnRecipe.anchors, help="blocks of a row")
    parser.add_argument("--rate", type=float, default=OwnRecipe.matrix_rate)
    parser.add_argument("--whole-steps", type=int, default=OwnRecipe.whole_steps)
    choice = parser.parse_args()
    recipe = OwnRecipe(
        choice.drafter, choice.steps or STEPS[choice.drafter], begun_from=tuple(choice.begun_from), rows=choice.rows,
        anchors=choice.anchors, matrix_rate=choice.rate, whole_steps=choice.whole_steps,
        learns=LEARNS[choice.drafter.partition("-")[0]])
    run_recipe(recipe, choice.rig, choice.begin_with, choice.out)


if __name__ == "__main__":
    main()
