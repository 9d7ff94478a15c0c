"""The page over the scripted source in a separate process: ``python -m tests.browser.serve PORT SECONDS``, where each
round takes SECONDS."""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette

from engine.records import PromptRequest
from engine.trace import Entry, Line, Trace, as_recording, dump, trace_from_lines
from explorer.bundle import startup_page
from explorer.follow import Follow
from explorer.recordings import Library, shipped
from explorer.runs import RunLog
from explorer.shared import SharedRuns
from explorer.startup import Listening, listener, open_sockets, serve_at_once
from tests.explorer.scripted import ScriptedSource, prompt_for, scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import current_rig

LESSONS = (("welcome", "joint", 64), ("plain", "autoregressive", 0), ("merged", "merged", 64), ("routed", "routed", 32),
           ("tried", "nanogpt", 32))


@dataclass
class Timed(ScriptedSource):
    """Record the time of each round in a file."""

    log: Path = Path(os.devnull)

    def run(self, ask: PromptRequest) -> Generator[Line, None, None]:
        with self.log.open("a") as file:
            for line in super().run(ask):
                if isinstance(line, Entry):
                    file.write(f"{time.time()}\n")
                    file.flush()
                yield line


def wide_trace() -> Trace:
    """Return a trace of more than 200 rounds of 256 drafted nodes."""
    return trace_from_lines(ScriptedSource().run(PromptRequest(prompt_for(1700), method="joint", budget=256)))


def record(folder: Path, welcome_alone: bool) -> None:
    """Record runs of the script, one for each lesson."""
    traces = {name: scripted_trace(method, budget) for name, method, budget in LESSONS[:1 if welcome_alone else None]}
    for name, trace in (traces if welcome_alone else {**traces, "wide": wide_trace()}).items():
        method = trace.header.request.method
        dump(as_recording(trace, f"Scripted: {method}", f"What {method} does with the script.", "2026-11-20"),
             folder / f"{name}.jsonl")
    (folder / "lessons.json").write_text(json.dumps([{"name": "welcome"}]))


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="gets a line a round: its second since 1970")
    parser.add_argument("--results", type=Path, help="the lab measures into this file; one recording is there")
    parser.add_argument("--follow", type=Path, help="the page follows this folder, and has no recordings")
    parser.add_argument("--until", type=Path, help="the first second's page, until this file exists")
    parser.add_argument("--root-path", default="", help="the path that a proxy serves the page below")
    parser.add_argument("--allow-frame", action="append", default=[], help="an origin that may frame the page")
    args = parser.parse_args()
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    listening = Listening(port=args.port, root_path=args.root_path, frames=args.allow_frame)
    with tempfile.TemporaryDirectory() as folder:
        if not args.follow:
            record(Path(folder), welcome_alone=bool(args.results))
        recordings = Library([] if args.follow else shipped(Path(folder)))

        def build() -> Starlette:
            from explorer import page
            while args.until and not args.until.exists():
                time.sleep(0.1)
            instruments = ScriptedInstruments(args.seconds / 10)
            instruments.reason = "" if args.results else "Nothing is measured here."
            source = Timed(args.seconds, log=args.log)
            follow, results = Follow(args.follow) if args.follow else None, args.results or page.RESULTS
            shared = SharedRuns(Path(folder, "shared"))
            built = page.build(current_rig(source, instruments), recordings, None, results, follow, shared)
            return page.guarded(*built, listening)

        if args.until:
            first = recordings.first()
            run = RunLog.recorded(first.name, first.trace, recordings.comparison(first.name)) if first else None
            serve_at_once(startup_page(run.all_lines() if run else (), args.root_path), build, listening)
        else:
            listener(build(), listening).run(open_sockets(listening))


if __name__ == "__main__":
    main()
