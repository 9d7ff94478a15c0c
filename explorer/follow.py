"""Runs that another program writes into a trace file: shown as they grow, and listed where they lie in a folder."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep

from engine.errors import CanopyError
from engine.machine.files import name_in_utf8
from engine.trace import End, Line, Trace, load
from engine.trace.reading import TraceTail
from explorer.runs import Run, Runs, Window
from explorer.view import View, blank_view

SECONDS_BETWEEN_LOOKS = 0.05  # at the file
SECONDS_BETWEEN_SEARCHES = 0.5  # for a newer file in the folder
SECONDS_BETWEEN_BEATS = 1.0  # while nothing happens: a heartbeat notices that a browser has gone
MAX_LISTED = 100  # runs of a folder, the newest
ENDINGS = (".jsonl", ".jsonl.gz")


class GrowingRun:
    """A file that is followed; its lines so far are shared by all browsers that follow it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = name_in_utf8(path)
        self.kept = Run(self.run)
        self.lines: list[Line] = []
        self.failure = ""
        self._tail = TraceTail(path)
        self.replaced = self._tail.replaced

    def grow(self, runs: Runs) -> None:
        """Read what was written until now, unless the run has ended."""
        if self.failure or self.lines and isinstance(self.lines[-1], End):
            self._tail.close()
            return
        try:
            fresh = self._tail.lines()
            runs.add(self.kept, *fresh)
            self.lines.extend(fresh)
        except CanopyError as error:
            self.failure = str(error)


class Follow:
    """A trace file, or the newest of a folder, as it grows. Everybody's browser asks for ``views``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._runs = Runs()
        self._lock = Lock()
        self._growing: GrowingRun | None = None
        self._searched = 0.0

    def paths(self) -> list[Path]:
        if not self._path.is_dir():
            return [self._path] if self._path.is_file() else []
        dated = []
        for path in self._path.iterdir():
            with suppress(OSError):  # one that is gone by now
                if path.name.endswith(ENDINGS) and path.is_file():
                    dated.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(dated, reverse=True)[:MAX_LISTED]]

    def listed(self) -> list[View]:
        """The runs of the folder as a menu lists them: by the names of their files."""
        return [{"name": name, "title": name} for name in map(name_in_utf8, self.paths())]

    def trace(self, name: str) -> Trace | None:
        """The listed run of that file name, as far as it has been written; None if there is no such file."""
        if (known := self._runs.trace(name)) is not None:
            return known
        paths = [path for path in self.paths() if name_in_utf8(path) == name]
        return load(paths[0]) if paths else None

    def views(self) -> Iterator[View | None]:
        """Stage values of the newest run as it grows, then of the next one; None is a heartbeat."""
        yield {**blank_view(), "followed": True, "message": f"Waiting for a run in {name_in_utf8(self._path)} …"}
        growing: GrowingRun | None = None
        window, seen, spoke = Window(""), 0, monotonic()
        while True:
            if (newest := self._newest()) is not growing and newest:
                growing, window, seen = newest, Window(newest.run), 0
            lines = growing.lines[seen:] if growing else []
            for line in lines:
                window.add(line)
            seen += len(lines)
            failure = growing.failure if growing and not lines and window.view["state"] != "error" else ""
            if failure:
                window.fail(failure)
            if lines or failure:
                yield {**window.value(), "followed": True, "listed": self.listed()}
            elif monotonic() - spoke > SECONDS_BETWEEN_BEATS:
                yield None
            else:
                sleep(SECONDS_BETWEEN_LOOKS)
                continue
            spoke = monotonic()

    def _newest(self) -> GrowingRun | None:
        """The newest run, with what was written until now. The first browser that asks reads for all."""
        with self._lock:
            growing = self._growing
            if monotonic() - self._searched > SECONDS_BETWEEN_SEARCHES:
                self._searched = monotonic()
                paths = self.paths()
                if paths and (growing is None or growing.path != paths[0] or growing.replaced()):
                    growing = self._growing = GrowingRun(paths[0])
                    self._runs.begin(growing.kept)
            if growing is not None:
                growing.grow(self._runs)
            return growing
