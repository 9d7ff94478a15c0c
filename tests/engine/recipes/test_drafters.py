"""Two steps of a drafter's training on the demo rig's target, from batch to a checkpoint that the loader takes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch

from engine.checkpoints.loading import load_causal, load_tokenizer
from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.dflash.model import DFlashModel
from engine.recipes.denoising import train_drafter
from engine.recipes.drafter import DrafterRecipe, Teacher, course, drafter_config, export_drafter
from engine.recipes.rates import optimizers
from engine.recipes.target import Run
from engine.serving.rigs import open_rig


def test_a_drafter_learns_and_its_export_loads(tmp_path: Path) -> None:
    target = load_causal(Path("assets/demo/target"), torch.float32, torch.device("cpu"))
    tokenizer = load_tokenizer(Path("assets/demo/target"))
    recipe = DrafterRecipe("math", tokens=2 * 2 * 256, rows=2, anchors=3)
    model = DFlashModel(drafter_config(target.config, tokenizer.mask_token_id))
    before = model.fc.weight.detach().clone()
    run = Run(model, optimizers(model, recipe), tmp_path / "work")
    loss = train_drafter(run, course(model, recipe, Teacher(target), tokenizer))
    assert run.step == recipe.steps == 2 and math.isfinite(loss)
    assert not torch.equal(before, model.fc.weight) and run.file.exists()
    export_drafter(run, recipe, tmp_path / "head", loss)
    again = open_rig(f"assets/demo/target::{tmp_path / 'head'}", "float32").drafters["drafter"]
    assert isinstance(again, DFlashDrafter)
    torch.testing.assert_close(again.model.fc.weight, model.fc.weight.to(torch.bfloat16).float())
    assert json.loads((tmp_path / "head" / "training.json").read_text())["blocks_seen"] == 12
