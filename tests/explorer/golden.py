"""The golden views: one file a method. ``python -m tests.explorer.golden`` writes them anew, to be read in a diff."""

from __future__ import annotations

import json
from pathlib import Path

from engine.decoding.methods import METHODS
from explorer.view import View, run_view
from tests.explorer.scripted import scripted_trace

FOLDER = Path(__file__).with_name("golden")


def golden_view(method: str) -> View:
    """The first two rounds of the script at a small budget, as the stage takes them."""
    trace = scripted_trace(method, 6)
    return run_view("golden", (trace.header, *trace.entries[:2], trace.end))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in METHODS:
        (FOLDER / f"{name}.json").write_text(json.dumps(golden_view(name), indent=1, ensure_ascii=False) + "\n", "utf8")
