"""Turns SGLang's verification passes into rounds of runs.

A pass holds one tree for each request of the batch, all of n rows: ``candidates`` and ``target_predict`` (requests, n);
``retrieve_next_token`` and ``retrieve_next_sibling`` (requests, n), the first child of a row and its next sibling, -1
for none; ``accept_index`` (requests, depth + 1), the accepted rows counted over the whole batch, padded with -1.

A pass does not say which request each tree belongs to. A request's rounds are put together by their bonus tokens, each
of which is the next round's root. Where only every n-th pass is recorded, requests are told apart by their slot in the
batch, so one file may hold rounds of several requests.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import numpy as np

from canopy_sglang.recorder import Recorder

NAMES = {  # of the recorded arguments in different versions of SGLang
    "candidates": ("candidates",), "next_child": ("retrieve_next_token", "retrive_next_token"),
    "next_sibling": ("retrieve_next_sibling", "retrive_next_sibling"), "choice": ("target_predict",),
    "accepted": ("accept_index",)}
MOST_WAITING = 256  # passes
MOST_RUNS = 64  # open at once; the one that was silent longest is closed first
SECONDS_BETWEEN_LOOKS = 0.02

log = logging.getLogger("canopy.sglang")


class VerifyPasses:
    """Copies a pass's arguments without waiting for the GPU; a thread makes rounds of them."""

    def __init__(self, folder: str, every: int, token_text: Any) -> None:
        self._runs = _Runs(Path(folder), every, token_text)
        self._every, self._count = every, 0
        self._waiting: deque[tuple[Mapping[str, Any], Any]] = deque()
        self._refused = False
        self.dropped = 0
        Thread(target=self._write, name="canopy sglang", daemon=True).start()

    def around(self, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Run SGLang's own verification, and copy its arguments. A failure to copy never makes it fail."""
        result = original(*given, **named)
        self._count += 1
        if (self._count - 1) % self._every == 0 and _is_first_rank():
            try:
                self._take(inspect.signature(original).bind(*given, **named).arguments)
            except Exception as error:
                self._say(error)
        return result

    def _say(self, error: Exception) -> None:
        if not self._refused:
            log.warning("Canopy cannot record a verify pass of this SGLang: %s", error)
        self._refused = True

    def _take(self, named: Mapping[str, Any]) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            return
        copies = {name: _argument(named, known).detach().clone() for name, known in NAMES.items()}
        first = copies["candidates"]
        event = sys.modules["torch"].cuda.current_stream(first.device).record_event() if first.is_cuda else None
        self._waiting.append((copies, event))

    def _write(self) -> None:
        while True:
            while self._waiting:
                copies, event = self._waiting.popleft()
                try:
                    if event is not None:
                        event.synchronize()
                    self._runs.add({name: np.asarray(copy.cpu()) for name, copy in copies.items()})
                except Exception as error:
                    self._say(error)
            sleep(SECONDS_BETWEEN_LOOKS)


def _argument(named: Mapping[str, Any], known: tuple[str, ...]) -> Any:
    for name in known:
        if name in named:
            return named[name]
    raise LookupError(f"its verify_tree_greedy_func has no {' or '.join(known)}; it has {', '.join(named)}.")


def _is_first_rank() -> bool:
    """Whether this process is the first of its tensor-parallel group, whose members all verify the same trees."""
    distributed = sys.modules["torch"].distributed if "torch" in sys.modules else None
    return not (distributed and distributed.is_available() and distributed.is_initialized()) or (
        distributed.get_rank() == 0)


class _Runs:
    """The requests that are being served, each with the file of its rounds."""

    def __init__(self, folder: Path, every: int, token_text: Any) -> None:
        self._folder, self._every, self._token_text = folder, every, token_text
        self._open: dict[tuple[int, int], Recorder] = {}  # by slot of the batch, and the root that comes next
        self._begun = 0

    def add(self, batch: Mapping[str, Any]) -> None:
        """Write the trees of one pass into the files of their runs."""
        size = batch["candidates"].shape[1]
        for slot, tokens in enumerate(batch["candidates"]):
            rows, parents = _rows(batch["next_child"][slot], batch["next_sibling"][slot])
            accepted = batch["accepted"][slot]
            keep = [rows.index(row) for row in (accepted[accepted >= 0] - slot * size).tolist()]
            choice = batch["choice"][slot][rows]
            bonus = int(choice[keep[-1]])
            recorder = self._run(slot, int(tokens[0]))
            recorder.round(tokens=tokens[rows], parents=parents, keep=keep, bonus=bonus, choice=choice)
            self._open[slot, bonus] = recorder

    def _run(self, slot: int, root: int) -> Recorder:
        """The run whose next root is this token, preferably at this slot of the batch; a new run if there is none."""
        if self._every > 1:
            known = [key for key in self._open if key[0] == slot]
        else:
            known = [key for key in self._open if key[1] == root]
        if known:
            return self._open.pop(min(known, key=lambda key: abs(key[0] - slot)))
        if len(self._open) >= MOST_RUNS:
            self._open.pop(next(iter(self._open))).close("stopped")
        self._begun += 1
        path = self._folder / f"sglang-{os.getpid()}-{self._begun:05}.jsonl.gz"
        return Recorder(path, engine="sglang", method="eagle", token_text=self._token_text)


def _rows(next_child: Any, next_sibling: Any) -> tuple[list[int], list[int]]:
    """A tree's rows, each after its parent: SGLang's row numbers (n,), and the parents (n,) as indices among them. From
    first children and next siblings: in SGLang's order where that puts parents first, else breadth first. Unreachable
    rows are padding and left out."""
    rows, above = [0], {0: 0}
    for row in rows:  # grows while it is walked
        child = int(next_child[row])
        while child >= 0 and len(rows) <= len(next_child):
            rows.append(child)
            above[child] = row
            child = int(next_sibling[child])
    if all(above[row] < row for row in rows[1:]):
        rows.sort()
    return rows, [rows.index(above[row]) for row in rows]
