"""How much memory an untrusted trace may take to read. An ordinary trace stays far below each limit.

The longest shipped recording has 2.2 MB in 9 lines; a round of 1,024 nodes with two drafters takes 0.3 MB. Gzipped
recordings are 3 to 8 times smaller than their text, a recorder's barest ones 12 times.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of a file: its bytes compressed and uncompressed, the ratio of the two, the members of a gzip file,
    lines (whatever they hold), bytes and JSON values of a line, and tokens that have a text."""

    file_bytes: int = 128 * 2**20
    unpacked_bytes: int = 256 * 2**20
    growth: int = 24
    free_bytes: int = 2 * 2**20  # unpacked: any file may have so many, however small it is
    members: int = 2**14
    lines: int = 2**16 + 2**8  # 65,536 rounds, and what else there is
    line_bytes: int = 16 * 2**20
    line_values: int = 500_000
    pieces: int = 300_000


LIMITS = Limits()
UPLOADED = Limits(file_bytes=32 * 2**20)

MOST_NODES = 2**14  # of a tree
MOST_CELLS = 2**20  # of a lattice: depth × rows × k
MOST_DRAFTERS = 16
MOST_PROMPT_TOKENS = 2**20
LONGEST_TEXT = 2**20  # characters: a prompt
LONGEST_NOTE = 2**13  # characters: a title, a sentence for the reader, what the hardware is
LONGEST_NAME = 200  # characters: a method, a drafter, a stage, a reason
LONGEST_PIECE = 2**10  # characters or bytes of one token
LARGEST = 2**31 - 1  # of a token id, an index, a count
