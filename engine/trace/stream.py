"""Read the lines of a file, gzipped or not, with little more in memory than one line.

The limits of a trace are in ``engine/recorder.py``. The longest shipped recording has 2.2 MB in 9 lines; a round of
1,024 nodes with two drafters takes 0.3 MB.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from engine.errors import TraceError
from engine.machine.files import cause_of, open_file
from engine.recorder import MAX_FILE_BYTES, MAX_LINE_BYTES, MAX_UNPACKED_BYTES

GZIP_MAGIC = b"\x1f\x8b"
STEP_BYTES = 2**20  # unpacked at a time, at most
PACKED_BYTES = 2**16  # passed to zlib at a time, because it copies what follows the end of a gzip member
MAX_MEMBERS = 2**14  # of a gzip file


def open_trace(path: Path) -> BinaryIO:
    """Open an ordinary file for reading. TraceError if it is not one, cannot be read, or is too large."""
    try:
        file = open_file(path)
    except (OSError, ValueError) as error:
        raise TraceError(f"The trace {path.name} cannot be read: {cause_of(error)}.") from error
    try:
        check_size(os.fstat(file.fileno()).st_size, path.name)
    except TraceError:
        file.close()
        raise
    return file


def check_size(size: int, name: str) -> None:
    """Raise TraceError if a file of this size is too large."""
    if size > MAX_FILE_BYTES:
        raise TraceError(f"{name} has {size:,} bytes, and at most {MAX_FILE_BYTES:,} bytes are read.")


class FileLines:
    """Reads a file's complete lines, without line ends, step by step; the file may grow meanwhile. TraceError if it
    cannot be read, is damaged, or exceeds the limits."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self._chunks = self._unpacked()
        self._rest = b""  # of an incomplete line
        self._unpacked_bytes = 0
        self.read_bytes = 0
        self.ended = False  # whether the last step found nothing more to read

    def step(self) -> list[bytes]:
        """Read about ``STEP_BYTES``, and return the lines that end in them."""
        chunks: list[bytes] = []
        size, self.ended = 0, False
        try:
            while not self.ended and size < STEP_BYTES:
                chunk = next(self._chunks)
                chunks.append(chunk)
                size += len(chunk)
                self.ended = not chunk
        except zlib.error as error:
            raise TraceError(f"{self._name} is a gzip file that is damaged; record or copy it again.") from error
        self._unpacked_bytes += size
        if self._unpacked_bytes > MAX_UNPACKED_BYTES:
            raise self._too_large(f"unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
        *rows, self._rest = b"".join([self._rest, *chunks]).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            raise self._too_large(f"has a line of more than {MAX_LINE_BYTES:,} bytes")
        return rows

    def close(self) -> None:
        self._file.close()

    def _unpacked(self) -> Iterator[bytes]:
        """Yield the file's unpacked bytes, and b"" at its end, after which it may have grown."""
        head = self._read()
        while len(head) < len(GZIP_MAGIC):
            yield b""
            head += self._read()
        if not head.startswith(GZIP_MAGIC):
            while True:
                yield head
                head = self._read()
        packed, members = memoryview(head), 0
        member: Any = None
        full = False  # whether zlib may hold more output
        while True:
            if not packed and not full:
                packed = memoryview(self._read())
                if not packed:
                    yield b""
                    continue
            some = bytes(packed[:PACKED_BYTES])
            if member is None:
                rest = some.lstrip(b"\0")  # padding between members
                member = zlib.decompressobj(wbits=31) if rest else None
                members += bool(rest)
                if members > MAX_MEMBERS:
                    raise self._too_large(f"is a gzip file of more than {MAX_MEMBERS:,} parts")
            else:
                chunk = member.decompress(some, STEP_BYTES)
                rest = member.unused_data if member.eof else member.unconsumed_tail
                full = len(chunk) == STEP_BYTES and not member.eof
                member = None if member.eof else member
                if chunk:
                    yield chunk
            packed = packed[len(some) - len(rest):]

    def _read(self) -> bytes:
        try:
            data = self._file.read(STEP_BYTES)
        except OSError as error:
            raise TraceError(f"The trace {self._name} cannot be read: {cause_of(error)}.") from error
        self.read_bytes += len(data)
        check_size(self.read_bytes, self._name)
        return data

    def _too_large(self, what: str) -> TraceError:
        return TraceError(f"{self._name} {what}, which is the most that is read.")
