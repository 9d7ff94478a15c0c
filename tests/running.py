"""Waiting: for a coroutine, in whatever worker (a browser that another test opened holds a loop in its thread), and for
what other threads do."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

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
