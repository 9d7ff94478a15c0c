"""How much memory an untrusted trace may take to read. An ordinary trace stays far below each limit. What a recorder
writes has to stay within them, so they are its own (``engine/recorder.py``), except for those of uploads.

The longest shipped recording has 2.2 MB in 9 lines; a round of 1,024 nodes with two drafters takes 0.3 MB. Gzipped
recordings are 3 to 8 times smaller than their text, a recorder's barest ones 12 times.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine import recorder


@dataclass(frozen=True)
class Limits:
    """The limits of a file: its bytes compressed and uncompressed, the ratio of the two, the members of a gzip file,
    lines (whatever they hold), bytes and JSON values of a line, and tokens that have a text."""

    file_bytes: int = recorder.FILE_BYTES
    unpacked_bytes: int = recorder.UNPACKED_BYTES
    growth: int = recorder.GROWTH
    free_bytes: int = recorder.FREE_BYTES  # unpacked: any file may have so many, however small it is
    members: int = 2**14
    lines: int = recorder.MOST_ROUNDS + 2**8  # rounds, and what else there is
    line_bytes: int = recorder.LINE_BYTES
    line_values: int = recorder.LINE_VALUES
    pieces: int = recorder.MOST_PIECES


LIMITS = Limits()
UPLOADED = Limits(file_bytes=32 * 2**20)
