"""Where this machine keeps what was made from downloads: converted checkpoints, and training in progress."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "CANOPY_CACHE"


def kept_files() -> Path:
    """The folder: $CANOPY_CACHE, else ``canopy`` in the user's cache folder. It need not exist yet."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "canopy"
