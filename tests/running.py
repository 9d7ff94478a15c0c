"""Waiting: for a coroutine, in whatever worker (a browser that another test opened holds a loop in its thread), for
what other threads do, and for a server in a process of its own."""

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
    """What it returns, or raises; it runs in a thread of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def until(holds: Callable[[], Any]) -> None:
    """Wait, a minute at most: other work may keep the machine busy."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("It did not happen within a minute.")


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Fail if the block takes longer than that."""
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
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(*words: str, answers: str = "config", folder: Path = ROOT, **environment: str) -> Iterator[str]:
    """The address of a server that Python starts with these words, a free port in the place of ``PORT``, once
    ``answers`` does: that one does when the page has followed the first one."""
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
