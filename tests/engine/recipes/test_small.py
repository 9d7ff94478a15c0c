"""The small language model of the demo rig: what was trained is what the recipe says."""

from __future__ import annotations

import json
from pathlib import Path

from transformers import Qwen3ForCausalLM

from engine.checkpoints.files import parameters
from engine.checkpoints.loading import load_tokenizer
from engine.recipes.small import SmallRecipe, small_config

DEMO = Path("assets/demo")


def test_the_shipped_model_is_the_recipes() -> None:
    config = small_config(load_tokenizer(DEMO / "target"))
    shipped = json.loads((DEMO / "small" / "config.json").read_text())
    assert {name: shipped[name] for name in ("hidden_size", "num_hidden_layers", "vocab_size", "head_dim")} == {
        "hidden_size": config.hidden_size, "num_hidden_layers": 2, "vocab_size": 1536, "head_dim": config.head_dim}
    facts = json.loads((DEMO / "small" / "training.json").read_text())
    assert facts["parameters"] == Qwen3ForCausalLM(config).num_parameters() == parameters(DEMO / "small") < 1e6
    assert facts["tokens_seen"] == SmallRecipe().steps * SmallRecipe().tokens_per_step <= 3e6


def test_it_costs_little_beside_the_target() -> None:
    assert parameters(DEMO / "small") * 12 < parameters(DEMO / "target")
