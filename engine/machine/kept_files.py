"""Where converted checkpoints and unfinished training are kept on this machine."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "CANOPY_CACHE"


def kept_files() -> Path:
    """The folder for kept files: $CANOPY_CACHE, else ``canopy`` in the user's cache folder. It may not exist yet."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "canopy"
