"""The scripted page after the page of the first seconds: ``python -m tests.browser.serve_opening PORT GO FOLDER``.

It is built as soon as the file GO exists.
"""

import sys
import time
from pathlib import Path

from starlette.applications import Starlette

from explorer.bundle import opening_page
from explorer.opening import Listening, serve_at_once
from explorer.recordings import Library, shipped
from tests.browser.serve import record
from tests.explorer.scripted import ScriptedSource
from tests.explorer.scripted_rigs import answering


def main(port: int, go: Path, folder: Path) -> None:
    """Serve until the process is ended."""
    record(folder)
    recordings, listening = Library(shipped(folder)), Listening(port=port)

    def build() -> Starlette:
        while not go.exists():
            time.sleep(0.1)
        from explorer.page import build as page
        from explorer.server import guarded
        return guarded(page(answering(ScriptedSource()), recordings), listening)
    first = recordings.first()
    serve_at_once(opening_page(recordings.view(first) if first else None, "scripted"), build, listening)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
