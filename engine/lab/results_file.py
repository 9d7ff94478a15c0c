"""Results files on disk: the lock of the one writer, and sentences for SQLite's errors."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import IO

from engine.errors import ResultsError
from engine.machine.files import kind_of

MEANING = {
    sqlite3.SQLITE_FULL: "cannot be written, because the disk is full. What was measured before is kept: free some "
                         "space and resume",
    sqlite3.SQLITE_IOERR: "cannot be written or read, because the disk refuses. What was measured before is kept: "
                          "look at the disk and resume",
    sqlite3.SQLITE_READONLY: "may not be written; choose a place where you may write",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened or made; choose a file in a folder that is there and may be written",
    sqlite3.SQLITE_NOTADB: "is not a results file of Canopy: it is not a SQLite file; name another file",
    sqlite3.SQLITE_CORRUPT: "is damaged; name another file",
    sqlite3.SQLITE_BUSY: "is in use by another program; wait until that is done",
    sqlite3.SQLITE_LOCKED: "is in use by another program; wait until that is done",
}


def sentence(name: str, error: sqlite3.Error) -> str:
    """The sentence for an error of SQLite."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the higher bits say where it arose
    return f"The results file {name} {MEANING.get(primary, f'cannot be used ({error})')}."


def files_of(path: Path) -> list[Path]:
    """A results file with those that SQLite and ``take_lock`` keep beside it, links followed."""
    real = os.path.realpath(path)
    return [Path(f"{real}{end}") for end in ("", "-wal", "-shm", "-journal")] + [Path(os.path.realpath(_lock_of(path)))]


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def take_lock(path: Path) -> IO[bytes]:
    """Take the right to write a results file, until the returned file is closed or this process ends.

    The lock is a file beside it, since SQLite's own locks are lost when a process opens and closes the results file.
    ResultsError where another process holds it, or where it cannot be made.
    """
    try:
        if path.exists() and (kind := kind_of(path.stat().st_mode)):
            raise ResultsError(f"The results file {path.name} is {kind}, and only an ordinary file is written; name "
                               "another file.")
        lock = open(os.open(_lock_of(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666), "ab")  # noqa: SIM115
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ResultsError(f"The results file {path.name} cannot be made there: {said}.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise ResultsError(f"The results file {path.name} is being written by another sweep; wait until it is done, "
                           "or name another file.") from error
    return lock
