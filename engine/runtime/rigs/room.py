"""The device's memory, as runs share it: how much of it one takes, and the sentence for one that found none."""

from __future__ import annotations

import re
from contextlib import suppress
from ctypes import CDLL
from pathlib import Path
from traceback import clear_frames

import torch

from engine.errors import RequestError
from engine.records import Request
from engine.runtime.checkpoints.memory import cache_bytes, free_bytes
from engine.runtime.rigs.rigs import Rig

MOST_RUNS = 8  # at once
PART = 0.5  # of what is free once the rig is loaded, for the caches of all runs
LOGIT_BYTES = 8  # of a row's logits: in float32, and once more while they are read


class Room:
    """What all runs of a rig may take together."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.bytes = PART * unused_bytes(rig.target.device)

    def share(self, request: Request, drafters: int) -> float:
        """The part of the room that a run takes: at most all of it, at least one of ``MOST_RUNS`` parts."""
        return min(1.0, max(1 / MOST_RUNS, run_bytes(self._rig, request, drafters) / self.bytes))


def run_bytes(rig: Rig, request: Request, drafters: int) -> int:
    """What a run takes at its end, near enough: its cache, one for each drafter, which is never the larger, and the
    logits of a round's rows."""
    target = rig.target if drafters else rig.plain_target or rig.target
    rows = 2 * request.budget + 1  # a budget may be each drafter's
    positions = min(len(request.prompt_ids) + request.max_tokens, target.context_limit) + rows
    cache = cache_bytes(target.config, positions, target.cache_dtype)
    return (1 + drafters) * cache + LOGIT_BYTES * rows * int(target.config.vocab_size)


def unused_bytes(device: torch.device) -> int:
    """What is free on the device now; on a CPU as the system counts it, where it says so."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return free_bytes(device) + kept
    return min([free_bytes(device), *_available()])


def _available() -> list[int]:
    """Bytes that Linux has for this process, by the machine and by the container that it is in."""
    found: list[int] = []
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with suppress(OSError, ValueError):
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        found.append(max(0, limit - used))
    return found


def give_back() -> None:
    """Let the system have the memory that the threads of past runs had and the allocator only holds back: it keeps a
    store of its own for every few threads, and none of them shrinks by itself. GNU's allocator alone is known to."""
    with suppress(AttributeError, OSError):
        CDLL(None).malloc_trim(0)


def told(error: Exception, wish: str) -> Exception:
    """The error as its reader sees it: a RequestError where the device has no memory for this request, since the next
    one may have it again."""
    if not isinstance(error, torch.OutOfMemoryError):
        return error
    clear_frames(error.__traceback__)  # they hold what was made until then
    torch.cuda.empty_cache()
    wanted = re.search(r"Tried to allocate ([\d.]+ \w+)", str(error))
    more = f" ({wanted[1]} more was needed)" if wanted else ""
    return RequestError(f"The GPU ran out of memory{more} {wish}; lower the budget or max tokens, or shorten the "
                        "prompt.")
