"""The page as it follows a folder, in a process of its own: ``python -m tests.browser.serve_follow PORT FOLDER``."""

import os
import sys
from pathlib import Path

from explorer.follow import Follow
from explorer.recordings import Library
from tests.explorer.scripted import ScriptedSource
from tests.explorer.scripted_rigs import answering


def main(port: int, folder: Path) -> None:
    """Serve until the process is ended."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    from explorer.page import build
    from explorer.run_queue import WAITING_ROOM
    from explorer.server import launch_options

    page = build(answering(ScriptedSource(0.05)), Library([]), follow=Follow(folder))
    page.queue(max_size=WAITING_ROOM)
    page.launch(server_name="127.0.0.1", server_port=port, quiet=True, **launch_options())


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
