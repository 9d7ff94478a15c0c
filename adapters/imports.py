"""Shared by the imports of other tools' records: they read a file of JSON lines and write runs into a folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

Read = TypeVar("Read")
Convert = Callable[[Path, Path], list[Path]]  # (a file, the folder for its runs) -> the runs' files


def lines_of(source: Path, kind: str, read: Callable[[Any], Read]) -> Iterator[tuple[int, Read]]:
    """Yield the result of ``read`` for each line, with the line's number from 1. ValueError names the first line that
    ``read`` cannot use; ``kind`` is what the file should be."""
    for number, line in enumerate(source.read_text("utf8").splitlines(), start=1):
        try:
            yield number, read(json.loads(line))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{source.name} is not {kind}, or is damaged: line {number} cannot be read ({error})."
                             ) from error


def fitting(accepted: int, drafted: int) -> tuple[int, int]:
    """Return both counts of a step; ValueError if it accepted more than it drafted."""
    if not 0 <= accepted <= drafted:
        raise ValueError("a step that accepted more than it drafted")
    return drafted, accepted


def command(words: list[str], module: str, convert: Convert) -> int:
    """Run ``python -m MODULE FILE FOLDER``; the exit status."""
    if len(words) != 2:
        print(f"python -m {module} FILE FOLDER", file=sys.stderr)
        return 2
    try:
        runs = convert(Path(words[0]), Path(words[1]))
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(runs)} runs in {words[1]}")
    return 0
