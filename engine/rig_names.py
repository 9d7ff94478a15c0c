"""How rigs are named. Torch-free: the page's command line reads names before anything heavy is imported.

A rig is written NAME, FOLDER (one with a rig.json) or TARGET::DRAFTER, with a second ::DRAFTER where two are wanted.
TARGET and DRAFTER are folders, or model ids such as Qwen/Qwen3-8B with @REVISION behind them where one is meant; a
DRAFTER may also be ``ngram``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from engine.errors import RigError

RIGS_FOLDER = Path(__file__).resolve().parents[1] / "assets"
JOINT, PIN = "::", "@"
NGRAM = "ngram"


@dataclass(frozen=True)
class Pair:
    """A target and the drafters for it, each a folder or a model id with or without a revision."""

    target: str
    drafters: tuple[str, ...]


NAMED: Mapping[str, Pair] = MappingProxyType({
    "qwen3-4b": Pair("Qwen/Qwen3-4B@main", ("z-lab/Qwen3-4B-DFlash-b16@main",)),
    "qwen3-8b": Pair("Qwen/Qwen3-8B@main", ("z-lab/Qwen3-8B-DFlash-b16@main",)),
    "qwen3-coder-30b-a3b": Pair(
        "Qwen/Qwen3-Coder-30B-A3B-Instruct@main", ("z-lab/Qwen3-Coder-30B-A3B-DFlash@main",)),
    "llama3.1-8b": Pair(
        "meta-llama/Llama-3.1-8B-Instruct@main", ("z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat@main",)),
})


def rig_names() -> list[str]:
    """The rigs that lie in the assets folder, then those that the hub has."""
    return sorted(path.parent.name for path in RIGS_FOLDER.glob("*/rig.json")) + list(NAMED)


def pair_of(rig: str) -> Pair:
    """The pair that a rig's name or its TARGET::DRAFTER stands for."""
    if rig in NAMED:
        return NAMED[rig]
    target, *drafters = (part.strip() for part in rig.split(JOINT))
    if not target or not 1 <= len(drafters) <= 2 or not all(drafters):
        raise RigError(f"The rig {rig!r} is not of the form TARGET{JOINT}DRAFTER, or with a second {JOINT}DRAFTER; "
                       "each is a folder or a model id.")
    return Pair(target, tuple(drafters))


def from_hub(rig: str) -> tuple[str, ...]:
    """The model ids that a rig would look up on the hub; none for a rig that lies here, or for no rig at all."""
    try:
        pair = pair_of(rig)
    except RigError:
        return ()
    return tuple(place for place in (pair.target, *pair.drafters) if place != NGRAM and not Path(place).is_dir())
