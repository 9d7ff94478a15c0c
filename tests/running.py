"""Coroutines run to their end, in whatever worker: a browser that another test opened holds a loop in its thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def completed(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What it returns, or raises; it runs in a thread of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
