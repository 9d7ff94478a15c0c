"""The lines of a file, unpacked if it is gzipped, with no more in memory than one line and what was unpacked with
it; and how much an untrusted file may make its reader hold.

What a trace may hold is decided in ``engine/recorder.py``, whose limits these are. The longest shipped recording has
2.2 MB in 9 lines; a round of 1,024 nodes with two drafters takes 0.3 MB. Gzipped recordings are 3 to 8 times smaller
than their text, a recorder's barest ones 12 times.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from engine import recorder
from engine.errors import TraceError
from engine.machine.files import cause_of, open_file

GZIP_MAGIC = b"\x1f\x8b"
STEP_BYTES = 2**20  # the most that is read, and unpacked, at a time
PACKED_BYTES = 2**16  # given to zlib at a time: it copies what is left behind the end of a gzip member


@dataclass(frozen=True)
class Limits:
    """The limits of a file: its bytes compressed and uncompressed, the ratio of the two, the members of a gzip file,
    lines (whatever they hold), bytes and JSON values of a line, and tokens that have a text."""

    file_bytes: int = recorder.MAX_FILE_BYTES
    unpacked_bytes: int = recorder.MAX_UNPACKED_BYTES
    growth: int = recorder.MAX_COMPRESSION_RATIO
    free_bytes: int = recorder.ALWAYS_ALLOWED_BYTES  # unpacked: any file may have so many, however small it is
    members: int = 2**14
    lines: int = recorder.MAX_ROUNDS + 2**8  # rounds, and what else there is
    line_bytes: int = recorder.MAX_LINE_BYTES
    line_values: int = recorder.MAX_LINE_VALUES
    pieces: int = recorder.MAX_PIECES


LIMITS = Limits()
UPLOADED = Limits(file_bytes=32 * 2**20)


def open_trace(path: Path, limits: Limits) -> BinaryIO:
    """An ordinary file, opened for reading. TraceError if it is not one, cannot be read, or is too large."""
    try:
        file = open_file(path)
    except (OSError, ValueError) as error:
        raise TraceError(f"The trace {path.name} cannot be read: {cause_of(error)}.") from error
    try:
        check_size(os.fstat(file.fileno()).st_size, limits, path.name)
    except TraceError:
        file.close()
        raise
    return file


def check_size(size: int, limits: Limits, name: str) -> None:
    """TraceError if a file has more bytes than the limits allow."""
    if size > limits.file_bytes:
        raise TraceError(f"{name} has {in_words(size)}, and at most {in_words(limits.file_bytes)} are read.")


def in_words(size: int) -> str:
    """A number of bytes in words."""
    return f"{size / 2**20:,.0f} MiB" if size >= 2**20 else f"{size:,} bytes"


class FileLines:
    """Gives a file's complete lines, without line ends, step by step; the file may grow meanwhile. TraceError if it
    cannot be read, is damaged, or goes beyond the limits."""

    def __init__(self, file: BinaryIO, name: str, limits: Limits) -> None:
        self._file, self._name, self._limits = file, name, limits
        self.read_bytes = 0
        self.ended = False  # whether the last step found nothing more to read
        self._gzipped: bool | None = None
        self._packed = memoryview(b"")  # what was read and is not unpacked
        self._inside: Any = None  # what unpacks the gzip member that has begun
        self._full = False  # whether zlib may hold more than it gave
        self._held: list[bytes] = []  # of a line that is not complete
        self._unpacked_bytes = self._members = self._line_bytes = 0

    def step(self) -> list[bytes]:
        """The lines that end in the next bytes of the file, of which a step takes about ``STEP_BYTES``."""
        chunk = self._read() if not self._waiting else b""
        try:
            chunk = self._unpack(chunk) if self._gzipped else chunk
        except zlib.error as error:
            raise TraceError(f"{self._name} is a gzip file that is damaged; record or copy it again.") from error
        self._unpacked_bytes += len(chunk)
        self._check()
        *ends, last = chunk.split(b"\n")
        rows = []
        for end in ends:
            self._hold(end)
            rows.append(b"".join(self._held))
            self._held, self._line_bytes = [], 0
        self._hold(last)
        return rows

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def _waiting(self) -> bool:
        """Whether there is more to unpack before more is read."""
        return bool(self._gzipped) and (len(self._packed) > 0 or self._full)

    def _read(self) -> bytes:
        """The next bytes of the file; none until the first two, which say whether it is gzipped, are there."""
        try:
            fresh = self._file.read(STEP_BYTES)
        except OSError as error:
            raise TraceError(f"The trace {self._name} cannot be read: {cause_of(error)}.") from error
        self.ended = not fresh
        self.read_bytes += len(fresh)
        check_size(self.read_bytes, self._limits, self._name)
        if self._gzipped is None:
            fresh = bytes(self._packed) + fresh
            if len(fresh) < len(GZIP_MAGIC):
                self._packed = memoryview(fresh)
                return b""
            self._gzipped, self._packed = fresh.startswith(GZIP_MAGIC), memoryview(b"")
        return fresh

    def _hold(self, part: bytes) -> None:
        """Keep a part of a line."""
        self._held.append(part)
        self._line_bytes += len(part)
        if self._line_bytes > self._limits.line_bytes:
            raise TraceError(f"{self._name} has a line of more than {in_words(self._limits.line_bytes)}, which is the "
                             "most that is read.")

    def _check(self) -> None:
        limits = self._limits
        if self._unpacked_bytes > limits.unpacked_bytes:
            raise TraceError(f"{self._name} unpacks to more than {in_words(limits.unpacked_bytes)}, which is the most "
                             "that is read.")
        if self._unpacked_bytes > max(limits.free_bytes, limits.growth * self.read_bytes):
            raise TraceError(f"{self._name} unpacks to more than {limits.growth} times its size, which no trace does.")
        if self._members > limits.members:
            raise TraceError(f"{self._name} is a gzip file of more than {limits.members:,} parts, which is the most "
                             "that is read.")

    def _unpack(self, fresh: bytes) -> bytes:
        """At most twice ``STEP_BYTES`` of what was read."""
        self._packed = memoryview(fresh) if fresh else self._packed
        chunks: list[bytes] = []
        left = STEP_BYTES
        while self._waiting and left > 0 and self._members <= self._limits.members:
            packed = bytes(self._packed[:PACKED_BYTES])
            if self._inside is None:
                rest = packed.lstrip(b"\0")  # padding between members
                self._inside = zlib.decompressobj(wbits=31) if rest else None
                self._members += bool(rest)
            else:
                chunks.append(self._inside.decompress(packed, STEP_BYTES))
                left -= len(chunks[-1])
                rest = self._inside.unused_data if self._inside.eof else self._inside.unconsumed_tail
                self._full = len(chunks[-1]) == STEP_BYTES and not self._inside.eof
                self._inside = None if self._inside.eof else self._inside
            self._packed = self._packed[len(packed) - len(rest):]
        return b"".join(chunks)
