"""The page over the scripted source, in a process of its own: ``python -m tests.browser.serve PORT SECONDS [LOG]``.

LOG gets a line per round, the time at which it was made, in seconds since the epoch.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from engine.records import PromptRequest
from engine.trace import Entry, Line, Trace, dump, gather, recorded
from explorer.recordings import Library, shipped
from tests.explorer.scripted import ScriptedSource, going_on, scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import answering

LESSONS = (("welcome", "joint", 64), ("plain", "autoregressive", 0), ("merged", "merged", 64), ("routed", "routed", 32),
           ("tried", "nanogpt", 32))


class Timed(ScriptedSource):
    """Writes down when each round was made."""

    log = Path(os.devnull)

    def run(self, ask: PromptRequest) -> Generator[Line, None, None]:
        with self.log.open("a") as file:
            for line in super().run(ask):
                if isinstance(line, Entry):
                    file.write(f"{time.time()}\n")
                    file.flush()
                yield line


def wide_trace() -> Trace:
    """More than 200 rounds of 256 drafted nodes."""
    return gather(ScriptedSource().run(PromptRequest(going_on(1700), method="joint", budget=256)))


def record(folder: Path) -> None:
    """Recorded runs of the script, one per lesson."""
    traces = {name: scripted_trace(method, budget) for name, method, budget in LESSONS}
    for name, trace in {**traces, "wide": wide_trace()}.items():
        method = trace.header.request.method
        dump(recorded(trace, f"Scripted: {method}", f"What {method} does with the script.", "2026-11-20"),
             folder / f"{name}.jsonl")
    (folder / "lessons.json").write_text(json.dumps([{"name": "welcome"}]))


def main(port: int, pause_seconds: float, log: Path) -> None:
    """Serve until the process is ended."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    from explorer.opening import Listening, listener, open_sockets
    from explorer.page import build
    from explorer.server import guarded

    source = Timed(pause_seconds)
    source.log = log
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder))
        instruments = ScriptedInstruments(pause_seconds / 10)
        instruments.reason = "Nothing is measured here."
        page = build(answering(source, instruments), Library(shipped(Path(folder))))
        listening = Listening(port=port)
        listener(guarded(page, listening), listening).run(open_sockets(listening))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), Path((sys.argv[3:] or [os.devnull])[0]))
