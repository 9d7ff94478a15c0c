"""A table of phrases as a checkpoint: its config.json, and the arrays of ``table`` in model.safetensors."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from engine.checkpoints.files import read_config
from engine.drafters.kinds import DrafterPlan, Kind, TargetFacts, architectures, must_count, must_fit
from engine.drafters.phrases.drafter import PhraseDrafter
from engine.drafters.phrases.table import read_table
from engine.models.target import TorchTarget


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether a config.json says that it is a table of phrases."""
    return "phrasetable" in architectures(values)


def plan(folder: Path, target: TargetFacts) -> DrafterPlan:
    """The plan of a table; RigError where it was counted over another vocabulary."""
    values = read_config(folder)
    must_count(folder, values, "vocab_size")
    must_fit(folder, "a vocabulary of", values["vocab_size"], target.config.vocab_size)
    return DrafterPlan((), partial(_load, folder))


def _load(folder: Path, target: TorchTarget) -> PhraseDrafter:
    vocabulary = int(target.config.vocab_size)
    return PhraseDrafter(vocabulary, read_table(folder, vocabulary))


phrases = Kind(recognises, plan)
