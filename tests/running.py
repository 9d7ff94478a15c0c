"""Waiting for a coroutine, for a condition that other threads fulfil, and for a server in another process."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
PORT = "PORT"
START_SECONDS = 180
Result = TypeVar("Result")


def completed(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run the coroutine in a new thread (another test's browser may hold this thread's loop); return its result."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def until(holds: Callable[[], Any]) -> None:
    """Wait up to a minute, since the machine may be busy, until the condition holds."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("It did not happen within a minute.")


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Fail if the block takes longer."""
    def late(*_: object) -> None:
        raise AssertionError(f"It took more than {seconds} s.")

    former = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(*words: str, answers: str = "config", folder: Path = ROOT, **environment: str) -> Iterator[str]:
    """Start Python with these words, ``PORT`` replaced by a free port; yield the address when ``answers`` responds.
    The path "config" responds when the real page has replaced the first one."""
    port = str(free_port())
    server = subprocess.Popen([sys.executable, *(port if word == PORT else word for word in words)],
                              cwd=folder, env={**os.environ, **environment})
    try:
        url = f"http://127.0.0.1:{port}/"
        wait_until_served(url + answers, server)
        yield url
    finally:
        server.terminate()
        server.wait(20)


def wait_until_served(url: str, server: subprocess.Popen[bytes], seconds: float = START_SECONDS) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            with urlopen(url, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"{url} did not answer within {seconds} s (exit status {server.poll()}).")
