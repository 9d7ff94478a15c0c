"""The page over the scripted source and bench, in a process of its own:
``python -m tests.browser.serve_lab PORT SECONDS RESULTS``."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from engine.trace import dump, recorded
from explorer.lessons import Library, shipped
from tests.explorer.scripted import ScriptedSource, scripted_trace
from tests.explorer.scripted_bench import ScriptedBench


def main(port: int, pause_seconds: float, results: Path) -> None:
    """Serve until the process is ended."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    from explorer.page import WAITING_ROOM, build, launch_options

    with tempfile.TemporaryDirectory() as folder:
        dump(recorded(scripted_trace("joint", 64), "Scripted: joint", "", "2026-11-20"), Path(folder) / "welcome.jsonl")
        source, bench = ScriptedSource(pause_seconds), ScriptedBench(pause_seconds / 10)
        page = build(source, Library(shipped(Path(folder))), bench, results)
        page.queue(max_size=WAITING_ROOM)
        page.launch(server_name="127.0.0.1", server_port=port, quiet=True, **launch_options())


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]))
