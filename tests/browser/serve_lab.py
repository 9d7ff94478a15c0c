"""The page over the scripted source and bench, in a process of its own:
``python -m tests.browser.serve_lab PORT SECONDS RESULTS``."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from engine.trace import dump, recorded
from explorer.recordings import Library, shipped
from tests.explorer.scripted import ScriptedSource, scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import answering


def main(port: int, pause_seconds: float, results: Path) -> None:
    """Serve until the process is ended."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    from explorer.opening import Listening, listener, open_sockets
    from explorer.page import build, guarded

    with tempfile.TemporaryDirectory() as folder:
        dump(recorded(scripted_trace("joint", 64), "Scripted: joint", "", "2026-11-20"), Path(folder) / "welcome.jsonl")
        source, instruments = ScriptedSource(pause_seconds), ScriptedInstruments(pause_seconds / 10)
        page = build(answering(source, instruments), Library(shipped(Path(folder))), results=results)
        listening = Listening(port=port)
        listener(guarded(page, listening), listening).run(open_sockets(listening))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]))
