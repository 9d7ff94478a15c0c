"""Where checkpoints come from: local folders, and the hub.

Downloads show their progress, go on where they were cut off, and take the token, the offline switch and the place to
keep things from the hub's own environment (HF_TOKEN, HF_HUB_OFFLINE, HF_HOME).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import tqdm

from engine.errors import RigError
from engine.rig_names import PIN
from engine.runtime.files import first_line
from engine.runtime.opening import Tell, unheard

GIGA = 1e9
MODEL_ID = re.compile(r"[\w.-]+/[\w.-]+")
# What a checkpoint needs: weights as safetensors, configs, tokenizers. Never a pickle, never code.
WANTED_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")


@dataclass(frozen=True)
class Fetched:
    """A local folder, and what it is in words: ``owner/name@commit`` or the folder's own name."""

    folder: Path
    label: str


def fetch(place: str, tell: Tell = unheard) -> Fetched:
    """The folder itself, or the model of the hub on this machine; RigError says why there is none."""
    folder = Path(place).expanduser()
    if folder.is_dir():
        return Fetched(folder, folder.resolve().name)
    model, _, revision = place.partition(PIN)
    if not MODEL_ID.fullmatch(model):
        raise RigError(f"There is no folder {place!r}, and it is no model id of the form owner/name.")
    found = Path(_downloaded(model, revision or "main", tell))
    return Fetched(found, f"{model}{PIN}{found.name[:12]}")


def _downloaded(model: str, revision: str, tell: Tell) -> str:
    tell(f"Looking for {model} …", None)
    try:
        return snapshot_download(
            model, revision=revision, allow_patterns=list(WANTED_FILES), tqdm_class=_telling(model, tell))
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
        raise RigError(f"The model {model} cannot be downloaded ({first_line(error)}); "
                       "try again: what is there already is kept.") from error


def _telling(model: str, tell: Tell) -> type[tqdm]:
    """The hub's progress bar, which also tells how many bytes are here, in a terminal or without one."""
    class Telling(tqdm):  # type: ignore[type-arg]
        def __init__(self, *given: Any, **named: Any) -> None:
            self.counts_bytes, self.here = named.get("unit") == "B", 0.0
            super().__init__(*given, **named)

        def update(self, n: float | None = 1) -> bool | None:
            self.here += n or 0
            if self.counts_bytes and self.total:
                tell(f"Fetching {model}: {self.here / GIGA:.2f} of {self.total / GIGA:.2f} GB",
                     min(1.0, self.here / self.total))
            return super().update(n)
    return Telling
