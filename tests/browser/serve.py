"""The page over the scripted source, in a process of its own: ``python -m tests.browser.serve PORT SECONDS``."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from engine.trace import dump, recorded
from explorer.lessons import Library, shipped
from tests.explorer.scripted import ScriptedSource, scripted_trace

LESSONS = (("welcome", "joint", 64), ("plain", "autoregressive", 0), ("merged", "merged", 64), ("routed", "routed", 32),
           ("tried", "nanogpt", 32))


def record(folder: Path) -> None:
    """Recorded runs of the script, one per lesson."""
    for name, method, budget in LESSONS:
        trace = recorded(scripted_trace(method, budget), f"Scripted: {method}", "", "2026-11-20")
        dump(trace, folder / f"{name}.jsonl.gz")


def main(port: int, pause_seconds: float) -> None:
    """Serve until the process is ended."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    from explorer.page import WAITING_ROOM, build, launch_options

    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder))
        page = build(ScriptedSource(pause_seconds), Library(shipped(Path(folder))))
        page.queue(max_size=WAITING_ROOM)
        page.launch(server_name="127.0.0.1", server_port=port, quiet=True, **launch_options())


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
