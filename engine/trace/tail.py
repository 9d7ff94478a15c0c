"""Reads a trace file that is still being written, as it grows."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from engine.errors import TraceError
from engine.machine.files import kind_of
from engine.trace.limits import LIMITS
from engine.trace.lines import Line
from engine.trace.reading import LineReader
from engine.trace.stream import GZIP_MAGIC, in_words

STEP_BYTES = 2**20  # the most that is read, and unpacked, at a time


class TraceTail:
    """Yields the lines of a growing file once they are complete; a half-written line waits for its other half."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reading = LineReader(path.name)
        self._file: BinaryIO | None = None
        self._inside: Any = None  # what unpacks a gzip file
        self._packed = self._rest = b""
        self._number = self._read = self._unpacked_bytes = 0  # the file's own number; bytes

    def lines(self) -> list[Line]:
        """The lines completed since the last call, at most one step's worth, so that it returns soon. TraceError where
        the file cannot be read, is not a trace, or is too large."""
        try:
            self._file = self._file or self._opened()
            fresh = b"" if self._packed else self._file.read(STEP_BYTES)
            self._read += len(fresh)
            chunk = self._unpacked(self._packed or fresh)
        except OSError as error:
            raise TraceError(f"The trace {self.path.name} cannot be read: {error.strerror}.") from error
        except zlib.error as error:
            raise TraceError(f"{self.path.name} is a gzip file that is damaged; record it again.") from error
        *rows, self._rest = (self._rest + chunk).split(b"\n")
        self._unpacked_bytes += len(chunk)
        for size, most in ((len(self._rest), LIMITS.line_bytes), (self._unpacked_bytes, LIMITS.unpacked_bytes)):
            if size > most:
                raise TraceError(f"{self.path.name} or a line of it has more than {in_words(most)}, which is "
                                 "the most that is read.")
        return [line for line in map(self._reading.line, rows) if line is not None]

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
        """Open the file, which has to be an ordinary one; a pipe is not waited for."""
        file = open(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: SIM115 (it stays open)
        about = os.fstat(file.fileno())
        if kind := kind_of(about.st_mode):
            file.close()
            raise TraceError(f"The trace {self.path.name} cannot be read: it is {kind}, not a file.")
        self._number = about.st_ino
        return file

    def _unpacked(self, chunk: bytes) -> bytes:
        if self._read == len(chunk) and self._inside is None and chunk[:2] == GZIP_MAGIC:
            self._inside = zlib.decompressobj(wbits=31)
        if self._inside is None:
            return chunk
        unpacked: bytes = self._inside.decompress(chunk, STEP_BYTES)
        self._packed = self._inside.unconsumed_tail
        return unpacked
