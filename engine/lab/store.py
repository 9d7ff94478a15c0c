"""Stores the plan of every sweep and the result of each of its cells in one SQLite file, as JSON text.

A result is one transaction, so a process that is killed loses only the cell in progress. The first result of a cell
stands. With a write-ahead log, readers can read while the one writer, who holds the lock, writes; ``synchronous =
FULL`` keeps committed results through a power cut.
"""

import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Self

from pydantic import TypeAdapter

from engine.errors import ResultsError
from engine.lab.reading import Reading
from engine.lab.settings import Cell, CellResult, Conditions, SweepPlan, measuring_order
from engine.machine.files import kind_of
from engine.trace import UNREADABLE

VERSION = 1
APPLICATION = 0x43414E50  # "CANP", in the file's header: tells a results file from any other SQLite file
LOCK_SECONDS = 10.0  # to wait for a reader's lock, which is never held for long
SCHEMA = (
    "BEGIN IMMEDIATE",
    "CREATE TABLE sweep (number INTEGER PRIMARY KEY AUTOINCREMENT, started TEXT NOT NULL, plan TEXT NOT NULL, "
    "conditions TEXT NOT NULL)",
    # ``setting``: index in the plan's settings; ``place``: the cell's turn; a finished cell has a reading or a failure
    "CREATE TABLE cell (sweep INTEGER NOT NULL, prompt INTEGER NOT NULL, setting INTEGER NOT NULL, "
    "repeat INTEGER NOT NULL, place INTEGER NOT NULL, reading TEXT, failure TEXT, hardware TEXT, finished TEXT, "
    "PRIMARY KEY (sweep, prompt, setting, repeat)) WITHOUT ROWID",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
PENDING = "reading IS NULL AND failure IS NULL"
LEGACY_NAMES = {"heads": "drafters", "together": "concurrency", "domain": "category"}  # of fields in older files
PLAN, CONDITIONS, READING = TypeAdapter(SweepPlan), TypeAdapter(Conditions), TypeAdapter(Reading)
FREE = "what was measured is kept: free some space on its disk and resume"
WAIT = "another program uses it: wait until that is done"
WAY_OUT = {  # of SQLite's errors
    sqlite3.SQLITE_FULL: FREE, sqlite3.SQLITE_IOERR: FREE, sqlite3.SQLITE_BUSY: WAIT, sqlite3.SQLITE_LOCKED: WAIT}


def json_of(record: SweepPlan | Conditions | Reading) -> str:
    """Encode a record as it is stored."""
    return json.dumps(asdict(record), ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def plan_of(text: str) -> SweepPlan:
    """Decode a stored plan, of this version or an older one."""
    return PLAN.validate_python(json.loads(text, object_hook=lambda fields: {
        LEGACY_NAMES.get(name, name): value for name, value in fields.items()}))


def files_of(path: Path) -> list[Path]:
    """Return a results file and the files that SQLite and ``take_lock`` keep beside it, links followed."""
    real = os.path.realpath(path)
    return [Path(f"{real}{end}") for end in ("", "-wal", "-shm", "-journal")] + [Path(os.path.realpath(f"{path}.lock"))]


def take_lock(path: Path) -> IO[bytes]:
    """Take the right to write a results file; closing the returned file gives it up. ResultsError if it is taken.

    The lock is a separate file, because SQLite's own locks are lost when a process opens and closes the results file.
    """
    try:
        if path.exists() and (kind := kind_of(path.stat().st_mode)):
            raise ResultsError(f"The results file {path.name} is {kind}, and only an ordinary file is written; name "
                               "another file.")
        lock = open(os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666), "ab")  # noqa: SIM115
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ResultsError(f"The results file {path.name} cannot be made there: {reason}.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise ResultsError(f"The results file {path.name} is being written by another sweep; wait until it is done, "
                           "or name another file.") from error
    return lock


@dataclass(frozen=True)
class StoredSweep:
    """A sweep in a file: its number there, when it began (ISO, UTC), and how many cells are done or failed."""

    number: int
    started: str
    plan: SweepPlan
    conditions: Conditions
    done: int


class Results:
    """A results file, open for reading. Any thread may use it, even while another process writes it.

    Every method raises ResultsError if the file is not a results file or is damaged.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ResultsError(f"There is no results file {path.name}; a sweep makes one.")
        self._open(path, "rw")

    def _open(self, path: Path, mode: str) -> None:
        self.path, self._turn = path, threading.RLock()
        with self._errors_in_words():
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", LOCK_SECONDS, isolation_level="IMMEDIATE",
                check_same_thread=False, uri=True)
            try:
                self._identify()
            except BaseException:
                self._connection.close()
                raise

    def _identify(self) -> None:
        """Raise ResultsError if this is not a results file that can be read here."""
        application, version, tables = self._header()
        if application != APPLICATION:
            seen = "a SQLite file of another program" if tables or application or version else "empty"
            raise ResultsError(f"{self.path.name} is not a results file of Canopy: it is {seen}; name another file.")
        if version != VERSION:
            raise ResultsError(f"{self.path.name} is a results file of version {version}, and this Canopy reads "
                               f"version {VERSION}; name another file.")

    def _header(self) -> list[int]:
        return [self._all(question)[0][0] for question in (
            "PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")]

    def sweeps(self) -> list[StoredSweep]:
        rows = self._all("SELECT number, started, plan, conditions, (SELECT count(*) FROM cell WHERE sweep = number "
                         f"AND NOT ({PENDING})) FROM sweep ORDER BY number")
        with self._errors_in_words():
            return [StoredSweep(number, started, plan_of(plan), CONDITIONS.validate_json(conditions), done)
                    for number, started, plan, conditions, done in rows]

    def sweep(self, number: int) -> StoredSweep:
        """Return the sweep of that number; ResultsError if there is none."""
        for stored in self.sweeps():
            if stored.number == number:
                return stored
        raise ResultsError(f"There is no sweep {number} in {self.path.name}.")

    def measured(self, number: int) -> list[CellResult]:
        """Return the results of the finished cells, in the order in which they were measured."""
        settings = self.sweep(number).plan.settings
        rows = self._all("SELECT prompt, setting, repeat, reading, failure, hardware FROM cell WHERE sweep = ? "
                         f"AND NOT ({PENDING}) ORDER BY finished, place", number)
        with self._errors_in_words():
            return [CellResult(Cell(prompt, settings[setting], repeat),
                               READING.validate_json(reading) if reading else None, failure or "", hardware)
                    for prompt, setting, repeat, reading, failure, hardware in rows]

    def pending(self, number: int) -> list[Cell]:
        settings = self.sweep(number).plan.settings
        rows = self._all(f"SELECT prompt, setting, repeat FROM cell WHERE sweep = ? AND {PENDING} ORDER BY place",
                         number)
        return [Cell(prompt, settings[setting], repeat) for prompt, setting, repeat in rows]

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _all(self, question: str, *values: Any) -> list[Any]:
        with self._turn, self._errors_in_words():
            return self._connection.execute(question, values).fetchall()

    @contextmanager
    def _errors_in_words(self) -> Iterator[None]:
        """Turn errors of SQLite, and of records that do not decode, into a ResultsError of one sentence."""
        try:
            yield
        except sqlite3.Error as error:
            primary = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the higher bits say where it arose
            raise ResultsError(f"The results file {self.path.name} cannot be used: {error}; "
                               f"{WAY_OUT.get(primary, 'name another one')}.") from error
        except UNREADABLE as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise ResultsError(f"{self.path.name} is damaged: a record in it cannot be read ({reason}).") from error


class Store(Results):
    """A results file to write, created if it does not exist. Only one can be open at a time."""

    def __init__(self, path: Path) -> None:
        self._lock = take_lock(path)
        try:
            self._open(path, "rwc")
        except BaseException:
            self._lock.close()
            raise

    def _identify(self) -> None:
        if not any(self._header()):
            with self._transaction():
                for statement in SCHEMA:
                    self._connection.execute(statement)
        super()._identify()
        self._all("PRAGMA journal_mode = WAL")
        self._all("PRAGMA synchronous = FULL")

    def begin(self, plan: SweepPlan, conditions: Conditions) -> int:
        """Add a sweep whose cells are all pending, and return its number."""
        with self._transaction():
            number = self._connection.execute(
                "INSERT INTO sweep (started, plan, conditions) VALUES (?, ?, ?)",
                (now(), json_of(plan), json_of(conditions))).lastrowid
            indices = {setting: index for index, setting in enumerate(plan.settings)}
            self._connection.executemany(
                "INSERT INTO cell (sweep, prompt, setting, repeat, place) VALUES (?, ?, ?, ?, ?)",
                ((number, cell.prompt, indices[cell.setting], cell.repeat, place)
                 for place, cell in enumerate(measuring_order(plan))))
        return int(number or 0)

    def record(self, stored: StoredSweep, result: CellResult) -> bool:
        """Write a cell's result. Return False, and write nothing, if the cell is done already or does not exist."""
        settings, cell = stored.plan.settings, result.cell
        if cell.setting not in settings:
            return False
        reading = json_of(result.reading) if result.reading else None
        with self._transaction():
            changed = self._connection.execute(
                "UPDATE cell SET reading = ?, failure = ?, hardware = ?, finished = ? WHERE sweep = ? AND prompt = ? "
                f"AND setting = ? AND repeat = ? AND {PENDING}",
                (reading, result.failure or None, result.hardware, now(), stored.number, cell.prompt,
                 settings.index(cell.setting), cell.repeat)).rowcount
        return changed == 1

    def clear(self, number: int) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM cell WHERE sweep = ?", (number,))
            self._connection.execute("DELETE FROM sweep WHERE number = ?", (number,))

    def close(self) -> None:
        super().close()
        self._lock.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write all changes of the block or none. The first change begins it (``isolation_level``)."""
        with self._turn, self._errors_in_words(), self._connection:
            yield


def now() -> str:
    """Return the current time in UTC as ISO text, to the microsecond, so that text sorts by time."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
