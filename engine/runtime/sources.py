"""Where checkpoints come from: named rigs, model ids of the hub, local folders.

A rig is written NAME, FOLDER (one with a rig.json) or TARGET::DRAFTER, with a second ::DRAFTER where two are wanted.
TARGET and DRAFTER are folders, or model ids such as Qwen/Qwen3-8B with @REVISION behind them where one is meant; a
DRAFTER may also be ``ngram``. Downloads show their progress, go on where they were cut off, and take the token, the
offline switch and the place to keep things from the hub's own environment (HF_TOKEN, HF_HUB_OFFLINE, HF_HOME).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from engine.errors import RigError

JOINT, PIN = "::", "@"
NGRAM = "ngram"
MODEL_ID = re.compile(r"[\w.-]+/[\w.-]+")
# What a checkpoint needs: weights as safetensors, configs, tokenizers. Never a pickle, never code.
WANTED_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")


@dataclass(frozen=True)
class Pair:
    """A target and the drafters for it, each a folder or a model id with or without a revision."""

    target: str
    drafters: tuple[str, ...]


@dataclass(frozen=True)
class Fetched:
    """A local folder, and what it is in words: ``owner/name@commit`` or the folder's own name."""

    folder: Path
    label: str


NAMED: Mapping[str, Pair] = MappingProxyType({
    "qwen3-4b": Pair("Qwen/Qwen3-4B@main", ("z-lab/Qwen3-4B-DFlash-b16@main",)),
    "qwen3-8b": Pair("Qwen/Qwen3-8B@main", ("z-lab/Qwen3-8B-DFlash-b16@main",)),
    "qwen3-coder-30b-a3b": Pair(
        "Qwen/Qwen3-Coder-30B-A3B-Instruct@main", ("z-lab/Qwen3-Coder-30B-A3B-DFlash@main",)),
    "llama3.1-8b": Pair(
        "meta-llama/Llama-3.1-8B-Instruct@main", ("z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat@main",)),
})


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
    """The model ids that a rig would look up on the hub; none for a rig that lies here."""
    if rig not in NAMED and JOINT not in rig:
        return ()
    pair = pair_of(rig)
    return tuple(place for place in (pair.target, *pair.drafters) if place != NGRAM and not Path(place).is_dir())


def fetch(place: str) -> Fetched:
    """The folder itself, or the model of the hub on this machine; RigError says why there is none."""
    folder = Path(place).expanduser()
    if folder.is_dir():
        return Fetched(folder, folder.resolve().name)
    model, _, revision = place.partition(PIN)
    if not MODEL_ID.fullmatch(model):
        raise RigError(f"There is no folder {place!r}, and it is no model id of the form owner/name.")
    found = Path(_downloaded(model, revision or "main"))
    return Fetched(found, f"{model}{PIN}{found.name[:12]}")


def _downloaded(model: str, revision: str) -> str:
    try:
        return snapshot_download(model, revision=revision, allow_patterns=list(WANTED_FILES))
    except GatedRepoError as error:
        raise RigError(f"The model {model} is given only to those who accepted its licence; accept it on its page on "
                       "the hub and set HF_TOKEN to your token.") from error
    except RepositoryNotFoundError as error:
        raise RigError(f"The hub has no model {model}, or it is private; check the id, or set HF_TOKEN to a token "
                       "that may read it.") from error
    except RevisionNotFoundError as error:
        raise RigError(f"The model {model} has no revision {revision!r}; name a branch, a tag or a commit.") from error
    except LocalEntryNotFoundError as error:
        raise RigError(f"The model {model} is not complete on this machine and the hub cannot be reached (no network, "
                       "or HF_HUB_OFFLINE is set); connect and try again, or name a local folder.") from error
    except (HFValidationError, HfHubHTTPError, OSError) as error:
        raise RigError(f"The model {model} cannot be downloaded ({str(error).strip().splitlines()[0][:200]}); "
                       "try again: what is there already is kept.") from error
