"""Reads a file as lines, with no more in memory than one line and what was unpacked with it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from engine.errors import TraceError
from engine.machine.files import kind_of
from engine.trace.limits import Limits

GZIP_MAGIC = b"\x1f\x8b"
STEP_BYTES = 2**18


@contextmanager
def opened(path: Path, limits: Limits) -> Iterator[BinaryIO]:
    """An ordinary file, opened for reading. TraceError where it is not one, cannot be read, or is too large."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # do not wait for a pipe
        with open(descriptor, "rb") as file:
            about = os.fstat(file.fileno())
            if kind := kind_of(about.st_mode):
                raise TraceError(f"The trace {path.name} cannot be read: it is {kind}, not a file.")
            check_size(about.st_size, limits, path.name)
            yield file
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TraceError(f"The trace {path.name} cannot be read: {said}.") from error


def check_size(size: int, limits: Limits, name: str) -> None:
    """TraceError where a file has more bytes than the limits allow."""
    if size > limits.file_bytes:
        raise TraceError(f"{name} has {in_words(size)}, and at most {in_words(limits.file_bytes)} are read.")


def check_line(size: int, limits: Limits, name: str) -> None:
    """TraceError where a line has more bytes than the limits allow."""
    if size > limits.line_bytes:
        raise TraceError(f"{name} has a line of more than {in_words(limits.line_bytes)}, which is the most that is "
                         "read.")


def in_words(size: int) -> str:
    """A number of bytes in words."""
    return f"{size / 2**20:,.0f} MiB" if size >= 2**20 else f"{size:,} bytes"


def lines_of(file: BinaryIO, limits: Limits, name: str) -> Iterator[bytes]:
    """The complete lines of a file, without line ends. TraceError where a line or the whole file is too long."""
    held: list[bytes] = []
    rest = 0
    for chunk in _unpacked(file, limits, name):
        *whole, last = chunk.split(b"\n")
        for piece in whole:
            check_line(rest + len(piece), limits, name)
            yield b"".join([*held, piece])
            held, rest = [], 0
        held.append(last)
        rest += len(last)
        check_line(rest, limits, name)


def _unpacked(file: BinaryIO, limits: Limits, name: str) -> Iterator[bytes]:
    read = written = 0
    start = file.read(len(GZIP_MAGIC))
    steps = _packed_steps(file, start, name) if start == GZIP_MAGIC else _steps(file, start)
    for chunk, taken in steps:
        read, written = read + taken, written + len(chunk)
        check_size(read, limits, name)
        if written > limits.unpacked_bytes:
            raise TraceError(f"{name} unpacks to more than {in_words(limits.unpacked_bytes)}, which is the most that "
                             "is read.")
        if written > max(limits.free_bytes, limits.growth * read):
            raise TraceError(f"{name} unpacks to more than {limits.growth} times its size, which no trace does.")
        yield chunk


def _steps(file: BinaryIO, start: bytes) -> Iterator[tuple[bytes, int]]:
    chunk = start
    while chunk:
        yield chunk, len(chunk)
        chunk = file.read(STEP_BYTES)


def _packed_steps(file: BinaryIO, start: bytes, name: str) -> Iterator[tuple[bytes, int]]:
    """Unpacked pieces of a gzip file, each with the number of bytes read for it; of a file that is cut off, all before
    the cut."""
    inside, packed, taken = zlib.decompressobj(wbits=31), start, len(start)
    while True:
        try:
            chunk = inside.decompress(packed, STEP_BYTES)
        except zlib.error as error:
            raise TraceError(f"{name} is a gzip file that is damaged; record or copy it again.") from error
        yield chunk, taken
        taken = 0
        packed = inside.unconsumed_tail
        if inside.eof:
            packed = inside.unused_data.lstrip(b"\0")
            inside = zlib.decompressobj(wbits=31)
        if not packed and len(chunk) < STEP_BYTES:
            packed = file.read(STEP_BYTES)
            taken = len(packed)
            if not packed:
                return


def as_file(data: bytes) -> BinaryIO:
    """Bytes as a file to read from."""
    return BytesIO(data)
