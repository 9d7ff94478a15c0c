"""Reads a file as lines, with no more in memory than one line and what was unpacked with it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from engine.errors import TraceError
from engine.machine.files import open_file
from engine.trace.checks import Limits

GZIP_MAGIC = b"\x1f\x8b"
STEP_BYTES = 2**20  # the most that is read, and unpacked, at a time
PACKED_BYTES = 2**16  # given to zlib at a time: it copies what is left behind the end of a gzip member


@contextmanager
def opened(path: Path, limits: Limits) -> Iterator[BinaryIO]:
    """An ordinary file, opened for reading. TraceError where it is not one, cannot be read, or is too large."""
    try:
        with open_file(path) as file:
            check_size(os.fstat(file.fileno()).st_size, limits, path.name)
            yield file
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TraceError(f"The trace {path.name} cannot be read: {reason}.") from error


def check_size(size: int, limits: Limits, name: str) -> None:
    """TraceError where a file has more bytes than the limits allow."""
    if size > limits.file_bytes:
        raise TraceError(f"{name} has {in_words(size)}, and at most {in_words(limits.file_bytes)} are read.")


def in_words(size: int) -> str:
    """A number of bytes in words."""
    return f"{size / 2**20:,.0f} MiB" if size >= 2**20 else f"{size:,} bytes"


def lines_of(file: BinaryIO, limits: Limits, name: str) -> Iterator[bytes]:
    """The complete lines of a file, without line ends. TraceError where a line or the whole file is too long."""
    rows = FileLines(name, limits)
    while (fresh := b"" if rows.waiting else file.read(STEP_BYTES)) or rows.waiting:
        yield from rows.of(fresh)


class FileLines:
    """Takes a file's bytes as they are read and gives its complete lines, unpacked where it is gzipped. TraceError
    where it is damaged or goes beyond the limits."""

    def __init__(self, name: str, limits: Limits) -> None:
        self._name, self._limits = name, limits
        self._gzipped: bool | None = None
        self._packed = memoryview(b"")  # what was read and is not unpacked
        self._inside: Any = None  # what unpacks the gzip member that has begun
        self._full = False  # whether zlib may hold more than it gave
        self._held: list[bytes] = []  # of a line that is not complete
        self._read = self._written = self._members = self._line = 0

    @property
    def waiting(self) -> bool:
        """Whether there is more to unpack before more is read."""
        return bool(self._gzipped) and (len(self._packed) > 0 or self._full)

    def of(self, fresh: bytes) -> list[bytes]:
        """The lines that end in these bytes, or, while it is ``waiting``, in those that were given before."""
        self._read += len(fresh)
        check_size(self._read, self._limits, self._name)
        chunk = self._unpacked(fresh)
        self._written += len(chunk)
        self._check_written()
        *ends, last = chunk.split(b"\n")
        rows = []
        for end in ends:
            rows.append(b"".join([*self._held, self._checked(end)]))
            self._held, self._line = [], 0
        self._held.append(self._checked(last))
        return rows

    def _checked(self, part: bytes) -> bytes:
        self._line += len(part)
        if self._line > self._limits.line_bytes:
            raise TraceError(f"{self._name} has a line of more than {in_words(self._limits.line_bytes)}, which is the "
                             "most that is read.")
        return part

    def _check_written(self) -> None:
        limits = self._limits
        if self._written > limits.unpacked_bytes:
            raise TraceError(f"{self._name} unpacks to more than {in_words(limits.unpacked_bytes)}, which is the most "
                             "that is read.")
        if self._written > max(limits.free_bytes, limits.growth * self._read):
            raise TraceError(f"{self._name} unpacks to more than {limits.growth} times its size, which no trace does.")
        if self._members > limits.members:
            raise TraceError(f"{self._name} is a gzip file of more than {limits.members:,} parts, which is the most "
                             "that is read.")

    def _unpacked(self, fresh: bytes) -> bytes:
        if self._gzipped is None:
            fresh = bytes(self._packed) + fresh
            if len(fresh) < len(GZIP_MAGIC):
                self._packed = memoryview(fresh)
                return b""
            self._gzipped, self._packed = fresh.startswith(GZIP_MAGIC), memoryview(b"")
        if not self._gzipped:
            return fresh
        self._packed = memoryview(fresh) if fresh else self._packed
        try:
            return self._step()
        except zlib.error as error:
            raise TraceError(f"{self._name} is a gzip file that is damaged; record or copy it again.") from error

    def _step(self) -> bytes:
        """At most twice ``STEP_BYTES`` of what was given."""
        chunks: list[bytes] = []
        left = STEP_BYTES
        while self.waiting and left > 0 and self._members <= self._limits.members:
            packed = bytes(self._packed[:PACKED_BYTES])
            if self._inside is None:
                rest = packed.lstrip(b"\0")  # padding between members
                self._inside = zlib.decompressobj(wbits=31) if rest else None
                self._members += bool(rest)
            else:
                given = self._inside.decompress(packed, STEP_BYTES)
                chunks.append(given)
                left -= len(given)
                rest = self._inside.unused_data if self._inside.eof else self._inside.unconsumed_tail
                self._full = len(given) == STEP_BYTES and not self._inside.eof
                self._inside = None if self._inside.eof else self._inside
            self._packed = self._packed[len(packed) - len(rest):]
        return b"".join(chunks)


def as_file(data: bytes) -> BinaryIO:
    """Bytes as a file to read from."""
    return BytesIO(data)
