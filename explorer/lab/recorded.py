"""The sweeps that ship with the page: what the lab opens with until something has been measured on this machine.

    python -m explorer.lab.recorded results.sqlite             the one that the lab opens with
    python -m explorer.lab.recorded results.sqlite smollm2     another one beside it, to be chosen

packs a results file with one finished sweep in it into one that ships. Any number of them may lie beside each other.
"""

from __future__ import annotations

import gzip
import shutil
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.lab.settings import CellResult
from engine.lab.store import Results, StoredSweep
from explorer.bundle import ASSETS

NUMBER = 0  # of the first among the sweeps, the others count down; those of a results file count from 1
SHIPPED = ASSETS / "lab" / "recorded.sqlite.gz"


class RecordedSweep:
    """A packed results file with one sweep in it, read when it is first asked for."""

    def __init__(self, path: Path = SHIPPED, number: int = NUMBER) -> None:
        self._path, self._number = path, number

    @property
    def stored(self) -> StoredSweep:
        """The sweep, under its number."""
        return self._read[0]

    @property
    def measured(self) -> Sequence[CellResult]:
        """The results of its cells."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[StoredSweep, list[CellResult]]:
        with TemporaryDirectory() as folder:
            plain = Path(folder) / "recorded.sqlite"
            with gzip.open(self._path) as packed, plain.open("wb") as file:
                shutil.copyfileobj(packed, file)
            with Results(plain) as results:
                (stored,) = results.sweeps()
                return replace(stored, number=self._number), results.measured(stored.number)


def shipped(first: Path = SHIPPED) -> list[RecordedSweep]:
    """The sweep that the lab opens with, then the others by name."""
    others = sorted(set(first.parent.glob("recorded-*.sqlite.gz")) - {first})
    return [RecordedSweep(path, NUMBER - place) for place, path in enumerate((first, *others))]


def is_recorded(number: int) -> bool:
    """Whether a sweep ships with the page."""
    return number <= NUMBER


def named(name: str) -> Path:
    """The path of another one."""
    return SHIPPED.with_name(f"recorded-{name}.sqlite.gz")


def pack(results: Path, into: Path = SHIPPED) -> None:
    """Write a results file as the shipped one: whole, in one file, compressed."""
    with TemporaryDirectory() as folder:
        plain = Path(folder) / "recorded.sqlite"
        with sqlite3.connect(results) as connection:
            connection.execute("VACUUM INTO ?", (str(plain),))
        into.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))


if __name__ == "__main__":
    pack(Path(sys.argv[1]), *map(named, sys.argv[2:3]))
