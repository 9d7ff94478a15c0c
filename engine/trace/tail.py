"""Reads a trace file that is still being written, as it grows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from engine.errors import TraceError
from engine.machine.files import open_file
from engine.trace import stream
from engine.trace.limits import LIMITS
from engine.trace.lines import Line
from engine.trace.reading import LineReader


class TraceTail:
    """Yields the lines of a growing file once they are complete; a half-written line waits for its other half."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reading, self._rows = LineReader(path.name), stream.FileLines(path.name, LIMITS)
        self._file: BinaryIO | None = None
        self._number = self._read = 0  # the file's own number; bytes

    def lines(self) -> list[Line]:
        """The lines completed since the last call, at most one step's worth, so that it returns soon. TraceError where
        the file cannot be read, is not a trace, or is too large."""
        try:
            self._file = self._file or self._opened()
            fresh = b"" if self._rows.waiting else self._file.read(stream.STEP_BYTES)
        except OSError as error:
            raise TraceError(f"The trace {self.path.name} cannot be read: {error.strerror}.") from error
        self._read += len(fresh)
        return [line for line in map(self._reading.line, self._rows.of(fresh)) if line is not None]

    def replaced(self) -> bool:
        """Whether another file has taken its place, or it has been begun anew."""
        try:
            there = self.path.stat()
        except OSError:
            return False
        return self._file is not None and (there.st_ino != self._number or there.st_size < self._read)

    def close(self) -> None:
        """Close the file; nothing more is read."""
        if self._file is not None:
            self._file.close()

    def _opened(self) -> BinaryIO:
        file = open_file(self.path)
        self._number = os.fstat(file.fileno()).st_ino
        return file
