"""Starts the process in which tokenizers and chat templates run (``worker.py``), and asks it. Imports no torch."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Any

from engine.texts.worker import MAX_REPLY_BYTES, TOO_LARGE

TEXT_SECONDS = 10  # processor time for one text; a prompt of a million tokens takes two
MAX_WAIT_SECONDS = 300  # by the clock, because the machine may be busy


class TextProcess:
    """The process. It answers one request at a time, each within ``seconds`` of processor time."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def start(self) -> None:
        """Start the process, unless it runs, so that the first request need not wait for its imports."""
        with self._lock:
            self._started()

    def ask(self, request: Sequence[Any]) -> dict[str, Any]:
        """Return the reply to a request. If there is none, ``failed`` says why, as a part of a sentence."""
        with self._lock:
            connection = self._started()
            reason = ""
            try:
                connection.send_bytes(json.dumps(request).encode())
                if connection.poll(MAX_WAIT_SECONDS):
                    reply: dict[str, Any] = json.loads(connection.recv_bytes(MAX_REPLY_BYTES))
                    return reply
                reason = f"takes more than {MAX_WAIT_SECONDS} s"
            except (OSError, EOFError):
                pass  # it ended
            except BaseException:  # an interrupt: the next request would be given this one's reply
                self._end()
                raise
            status = self._end()
            if not reason:
                reason = (f"takes more than {self._seconds} s of processor time" if status == -signal.SIGXCPU else
                          f"{TOO_LARGE} or crashes (status {status})")
            return {"failed": reason}

    def close(self) -> None:
        with self._lock:
            self._end()

    def _started(self) -> Connection:
        if self._connection is None:
            self._connection, worker_end = Pipe()
            root = str(Path(__file__).resolve().parents[2])
            path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
            with worker_end:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "engine.texts.worker", str(worker_end.fileno()), str(self._seconds)],
                    pass_fds=[worker_end.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, start_new_session=True,
                    env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"})
        return self._connection

    def _end(self) -> int | None:
        """End the process, and return its exit status."""
        if self._connection is None or self._process is None:
            return None
        self._connection.close()
        self._connection = None
        try:
            return self._process.wait(1)  # it may have ended by itself
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


@cache
def shared_process() -> TextProcess:
    """Return the process that all rigs share."""
    return TextProcess(TEXT_SECONDS)
