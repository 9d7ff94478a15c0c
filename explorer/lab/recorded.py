"""The sweeps that ship with the page: what the lab opens with until the loaded rig has been measured on this machine.

    python -m explorer.lab.recorded results.sqlite smollm2     into assets/lab/recorded-smollm2.sqlite.gz

packs a results file that holds one finished sweep. The lab opens with the loaded rig's recorded sweep, the first by
file name if there are several.
"""

import gzip
import sqlite3
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.lab.settings import CellResult
from engine.lab.store import Results, StoredSweep
from explorer.bundle import ASSETS

FIRST_RECORDED = 0  # recorded sweeps are numbered from here downwards, those of a results file from 1 upwards
FOLDER, ENDING = ASSETS / "lab", ".sqlite.gz"


@dataclass(frozen=True)
class RecordedSweep:
    """A shipped sweep, numbered for the page, with its results."""

    stored: StoredSweep
    measured: list[CellResult]


def read_packed(path: Path, number: int = FIRST_RECORDED) -> RecordedSweep:
    """Read the only sweep of a packed results file."""
    with TemporaryDirectory() as folder:
        plain = Path(folder) / "recorded.sqlite"
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        with Results(plain) as results:
            (stored,) = results.sweeps()
            return RecordedSweep(replace(stored, number=number), results.measured(stored.number))


def shipped(folder: Path = FOLDER) -> list[RecordedSweep]:
    """Return the recorded sweeps of a folder, by name."""
    paths = sorted(folder.glob(f"recorded-*{ENDING}"), key=lambda path: path.name.removesuffix(ENDING))
    return [read_packed(path, FIRST_RECORDED - index) for index, path in enumerate(paths)]


def is_recorded(number: int) -> bool:
    """Return whether a sweep ships with the page."""
    return number <= FIRST_RECORDED


def pack(results: Path, into: Path) -> None:
    """Write a results file as the shipped one: whole, in one file, compressed."""
    with TemporaryDirectory() as folder:
        plain = Path(folder) / "recorded.sqlite"
        with sqlite3.connect(results) as connection:
            connection.execute("VACUUM INTO ?", (str(plain),))
        into.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))


if __name__ == "__main__":
    pack(Path(sys.argv[1]), FOLDER / f"recorded-{sys.argv[2]}{ENDING}")
