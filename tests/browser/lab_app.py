"""The lab's app in a process of its own, for tests that kill it or want its results file for themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from engine.lab.store import Results
from tests.running import free_port, wait_until_served


class App:
    """The app over one results file: it can be killed, and started again at the same address. A round of the stage
    takes ``pause_seconds``, one of the lab a tenth of it."""

    def __init__(self, results: Path, pause_seconds: float) -> None:
        self.port, self.results, self.pause_seconds = free_port(), results, pause_seconds
        self.url = f"http://127.0.0.1:{self.port}/"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-m", "tests.browser.serve", str(self.port),
                                         str(self.pause_seconds), "--results", str(self.results)])
        wait_until_served(self.url, self.process)

    def kill(self) -> None:
        """As ``kill -9`` does: nothing of it gets to say goodbye."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(20)

    def kept(self) -> dict[str, Any]:
        """Every cell that is done, with what came of it, as the file has it."""
        with Results(self.results) as results:
            return {str(result.cell): result for result in results.measured(1)}
