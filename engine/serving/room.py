"""The device's memory that runs share: how much of it one run takes, and the error for a run that finds none."""

from __future__ import annotations

import re
from contextlib import suppress
from ctypes import CDLL
from pathlib import Path
from traceback import clear_frames

import torch

from engine.checkpoints.memory import cache_bytes, free_bytes
from engine.errors import RequestError
from engine.records import Request
from engine.serving.rigs import Rig

MOST_RUNS = 8  # at once
PART = 0.5  # of the memory that is free once the rig is loaded, for the caches of all runs
LOGIT_BYTES = 8  # per logit of a row: in float32, and a copy while they are read


class RunMemory:
    """The memory that all runs of a rig may take together, in bytes."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.bytes = PART * unused_bytes(rig.target.device)

    def share(self, request: Request, drafters: int) -> float:
        """The fraction of this memory that a run takes, from 1 / ``MOST_RUNS`` to 1."""
        return min(1.0, max(1 / MOST_RUNS, run_bytes(self._rig, request, drafters) / self.bytes))


def run_bytes(rig: Rig, request: Request, drafters: int) -> int:
    """About how many bytes a run takes at its end: the target's cache, as much again for each drafter, whose cache is
    never larger, and the logits of a round's rows."""
    target = rig.target
    rows = 2 * request.budget + 1  # the budget may be one for each of two drafters
    positions = min(len(request.prompt_ids) + request.max_tokens, target.context_limit) + rows
    cache = cache_bytes(target.config, positions, target.cache_dtype)
    return (1 + drafters) * cache + LOGIT_BYTES * rows * int(target.config.vocab_size)


def unused_bytes(device: torch.device) -> int:
    """How many bytes are free on the device now; on a CPU by the system's own count, where it has one."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return free_bytes(device) + kept
    return min([free_bytes(device), *_available()])


def _available() -> list[int]:
    """The bytes that Linux has free for this process, on the machine and within its container's limit."""
    found: list[int] = []
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with suppress(OSError, ValueError):
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        found.append(max(0, limit - used))
    return found


def give_back() -> None:
    """Return memory of past runs' threads to the system. GNU's allocator keeps an arena for every few threads, and none
    shrinks by itself; with any other allocator this does nothing."""
    with suppress(AttributeError, OSError):
        CDLL(None).malloc_trim(0)


def memory_error(error: Exception, wish: str) -> Exception:
    """The error to raise for the user: a RequestError where the device has no memory for this request, since a later
    one may succeed; any other error as it is."""
    if not isinstance(error, torch.OutOfMemoryError):
        return error
    clear_frames(error.__traceback__)  # its frames still hold tensors
    torch.cuda.empty_cache()
    wanted = re.search(r"Tried to allocate ([\d.]+ \w+)", str(error))
    more = f" ({wanted[1]} more was needed)" if wanted else ""
    return RequestError(f"The GPU ran out of memory{more} {wish}; lower the budget or max tokens, or shorten the "
                        "prompt.")
