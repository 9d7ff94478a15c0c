"""A table of phrases on disk: its config.json, and the arrays of ``table`` in model.safetensors."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from engine.checkpoints.files import damaged, display_name, read_config
from engine.drafters.kinds import DrafterPlan, Kind, TargetFacts, architectures, must_fit
from engine.drafters.phrases.drafter import PhraseDrafter
from engine.drafters.phrases.table import PhraseTable, table_of
from engine.errors import RigError
from engine.models.target import TorchTarget

WEIGHTS = "model.safetensors"


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether a config.json says that it is a table of phrases."""
    return "phrasetable" in architectures(values)


def plan(folder: Path, target: TargetFacts) -> DrafterPlan:
    """The plan of a table; RigError where it was counted over another vocabulary."""
    must_fit(folder, "a vocabulary of", read_config(folder).get("vocab_size"), target.config.vocab_size)
    return DrafterPlan((), partial(_load, folder))


def _load(folder: Path, target: TorchTarget) -> PhraseDrafter:
    vocabulary = int(target.config.vocab_size)
    return PhraseDrafter(vocabulary, read_table(folder, vocabulary))


def read_table(folder: Path, vocabulary: int) -> PhraseTable:
    """The table in a folder; RigError where it is damaged."""
    try:
        return table_of(_arrays(folder / WEIGHTS), vocabulary)
    except ValueError as error:
        raise RigError(f"The table of phrases in {display_name(folder)} cannot be read: {error}; make it "
                       "again.") from error


def _arrays(file: Path) -> Mapping[str, NDArray[Any]]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise damaged(file, error) from error
    except (AttributeError, TypeError) as error:  # numpy's errors for bfloat16 and 8-bit floats
        raise ValueError("it holds numbers that numpy does not know") from error


phrases = Kind(recognises, plan)
