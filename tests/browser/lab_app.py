"""The lab's app in a separate process, for tests that kill it or need their own results file."""

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
    """Run the app over one results file; it can be killed and restarted at the same address. A round of the stage
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
        """Kill the process as ``kill -9`` does, without any shutdown."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(20)

    def finished_cells(self) -> dict[str, Any]:
        """Return the file's finished cells with their results."""
        with Results(self.results) as results:
            return {str(result.cell): result for result in results.measured(1)}
