"""Follows trace files that another program writes: shows a run as it grows, and lists the runs of a folder."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

from engine.errors import CanopyError
from engine.machine.files import name_in_utf8
from engine.trace import End, Trace, load
from engine.trace.reading import TraceTail
from explorer.lines import encoded
from explorer.runs import RunLog, Runs

log = logging.getLogger("canopy")

POLL_SECONDS = 0.05  # between two looks at the file
SEARCH_SECONDS = 0.5  # between two searches for a newer file in the folder
MAX_LISTED = 100  # runs of a folder, the newest
ENDINGS = (".jsonl", ".jsonl.gz")


class GrowingRun:
    """A file that is followed, as a run; all browsers that follow it share its lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = RunLog(name_in_utf8(path))
        self._tail = TraceTail(path)
        self.replaced = self._tail.replaced

    def grow(self, runs: Runs) -> None:
        """Read what was written until now, unless the run has ended."""
        if self.run.ended:
            self._tail.close()
            return
        try:
            runs.add(self.run, *self._tail.lines())
        except CanopyError as error:
            self.run.end(str(error))
        if self.run.lines and isinstance(self.run.lines[-1], End):
            self.run.end()


class Follow:
    """A trace file, or the newest of a folder, as it grows. Everybody's browser reads ``lines``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._runs = Runs()
        self._growing: GrowingRun | None = None
        self._watched = False

    def paths(self) -> list[Path]:
        if not self._path.is_dir():
            return [self._path] if self._path.is_file() else []
        dated = []
        with suppress(OSError):  # the folder is gone by now
            for path in self._path.glob("*.jsonl*"):
                with suppress(OSError):  # one that is gone by now
                    if path.name.endswith(ENDINGS) and path.is_file():
                        dated.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(dated, reverse=True)[:MAX_LISTED]]

    def trace(self, name: str) -> Trace | None:
        """Return the run of a listed file, as far as it is written; None if there is no such file."""
        run = self._runs.get(name)
        if run and (trace := run.trace()):
            return trace
        paths = [path for path in self.paths() if name_in_utf8(path) == name]
        return load(paths[0]) if paths else None

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield encoded lines of the newest run as it grows, then of the next. Each run begins with the names of all
        runs in the folder, {"listed"}."""
        if not self._watched:
            self._watched = True
            Thread(target=self._watch, name="follow", daemon=True).start()
        shown: RunLog | None = None
        while True:
            if (growing := self._growing) and growing.run is not shown:
                shown = growing.run
                yield encoded({"listed": list(map(name_in_utf8, await asyncio.to_thread(self.paths)))})
                async for chunk in shown.follow(0, lambda: POLL_SECONDS):
                    yield chunk
            await asyncio.sleep(POLL_SECONDS)

    def _watch(self) -> None:
        """Read new lines for all followers until the page ends; one failed read does not end it."""
        searched = 0.0
        while True:
            try:
                if monotonic() - searched > SEARCH_SECONDS:
                    searched = monotonic()
                    self._search()
                if self._growing:
                    self._growing.grow(self._runs)
            except Exception:
                log.exception("What is written into %s could not be read; it is tried again", self._path)
                sleep(SEARCH_SECONDS)
            sleep(POLL_SECONDS)

    def _search(self) -> None:
        paths, shown = self.paths(), self._growing
        if paths and (shown is None or shown.path != paths[0] or shown.replaced()):
            if shown:
                shown.run.end()
            growing = GrowingRun(paths[0])
            self._runs.register(growing.run)
            self._growing = growing
