"""The folders in which the training of drafters for published targets keeps its files.

The answers, which take longest to make, lie beside the rig's card, so that another machine goes on from them; all that
follows from them lies outside of the repository.
"""

from __future__ import annotations

from pathlib import Path

from engine.machine.kept_files import kept_files
from engine.requests.rig_names import RIGS_FOLDER

HELD_OUT = "held-out"  # the folder of features of the conversations that drafters are measured on


def target_folder(rig: str) -> Path:
    """The converted target of a rig."""
    return kept_files() / "rigs" / rig / "target"


def answers_folder(rig: str) -> Path:
    """The folder of the target's own answers."""
    return RIGS_FOLDER / rig / "answers"


def work_folder(rig: str) -> Path:
    """The folder of a rig's prompts, features and unfinished drafters, each in a folder of its own."""
    return kept_files() / "training" / rig


def enough(rig: str) -> Path:
    """The file whose existence says that enough answers are written."""
    return work_folder(rig) / "enough"


def held_out_files() -> list[Path]:
    """The file of hand-written prompts that drafters are measured on."""
    prompts = Path(__file__).resolve().parents[2] / "assets" / "prompts"
    return [prompts / "people.jsonl", *sorted(prompts.glob("reworded.jsonl"))]
