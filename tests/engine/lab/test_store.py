"""The results file holds each result exactly once, if the process is killed, the disk is full or a file is damaged."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ResultsError
from engine.lab.settings import CellResult, measuring_order
from engine.lab.store import Results, Store
from engine.lab.sweeping import measure
from tests.engine.lab.scripted import ScriptedLaboratory, advance_sweep, toy_plan

PLAN = toy_plan()
CELLS = measuring_order(PLAN)
LABORATORY = ScriptedLaboratory()
FIRST = measure(LABORATORY, PLAN.task(CELLS[0]))


@pytest.fixture()
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


@pytest.fixture()
def store(path: Path) -> Iterator[Store]:
    with Store(path) as opened:
        yield opened


def begin(store: Store, *results: CellResult) -> int:
    """Begin a sweep, record these results and return its number."""
    number = store.begin(PLAN, LABORATORY.conditions)
    assert all(store.record(store.sweep(number), result) for result in results)
    return number


def test_results_are_read_back_and_the_first_of_a_cell_stays(store: Store, path: Path) -> None:
    failed = CellResult(CELLS[1], None, "The prompt is too long.", "no hardware")
    number = begin(store, FIRST, failed)
    cell = FIRST.cell
    for other in (replace(FIRST, hardware="another"), replace(FIRST, cell=replace(cell, prompt=99)),
                  replace(FIRST, cell=replace(cell, setting=replace(cell.setting, budget=999)))):
        assert not store.record(store.sweep(number), other)
    store.close()
    with Results(path) as results:
        stored = results.sweep(number)
        assert (stored.plan, stored.conditions, stored.done) == (PLAN, LABORATORY.conditions, 2)
        assert (results.measured(number), results.pending(number)) == ([FIRST, failed], CELLS[2:])


def ask_file(path: Path, question: str, *values: str) -> Any:
    """Return the first value of SQLite's answer, if there is one."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return next(connection.execute(question, values), [None])[0]


def test_a_file_from_before_auto_and_concurrency_is_continued(store: Store, path: Path) -> None:
    number = begin(store, FIRST)
    plan = json.loads(ask_file(path, "SELECT plan FROM sweep"))
    reading = json.loads(ask_file(path, "SELECT reading FROM cell WHERE reading NOT NULL"))
    for setting in plan["settings"]:
        assert (setting.pop("pace"), setting.pop("concurrency")) == ("fixed", 1)
        setting["heads"] = setting.pop("drafters")
    for prompt in plan["prompts"]:
        prompt["domain"] = prompt.pop("category")
    assert reading.pop("committed") == []
    ask_file(path, "UPDATE sweep SET plan = ?", json.dumps(plan))
    ask_file(path, "UPDATE cell SET reading = ? WHERE reading NOT NULL", json.dumps(reading))
    assert store.sweep(number).plan == PLAN and store.measured(number) == [FIRST]
    assert len(advance_sweep(store, number)) == len(PLAN) - 1


def test_one_file_holds_many_sweeps(store: Store) -> None:
    numbers = [begin(store), begin(store, FIRST), begin(store)]
    assert [(stored.number, stored.done) for stored in store.sweeps()] == list(zip(numbers, (0, 1, 0), strict=True))
    store.clear(numbers[1])
    assert [stored.number for stored in store.sweeps()] == [numbers[0], numbers[2]]
    assert begin(store) not in numbers
    with pytest.raises(ResultsError, match=f"{numbers[1]}.*results.sqlite"):
        store.measured(numbers[1])


def test_others_may_read_during_a_write_and_a_second_writer_is_refused(store: Store, path: Path) -> None:
    number = begin(store)
    with Results(path) as results:
        store.record(store.sweep(number), FIRST)
        seen = [results.measured(number)]
        reader = threading.Thread(target=lambda: seen.append(results.measured(number)))
        reader.start()
        reader.join()
        assert seen == [[FIRST]] * 2
    with pytest.raises(ResultsError, match="results.sqlite"):
        Store(path)
    store.close()
    Store(path).close()


# Continues the sweep of a file and prints a line for each cell; a second argument limits the size of files in bytes.
SWEEPING = """
import resource, signal, sys, time
from pathlib import Path
from threading import Event
from engine.errors import CanopyError
from engine.lab.store import Store
from engine.lab.sweeping import LocalWorkers, run_sweep
from tests.engine.lab.scripted import ScriptedLaboratory, toy_plan

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in sys.argv[2:]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
try:
    store = Store(Path(sys.argv[1]))
    number = store.begin(toy_plan(), ScriptedLaboratory().conditions) if not store.sweeps() else 1
    for step in run_sweep(store, number, LocalWorkers(ScriptedLaboratory()), Event()):
        print(step.done, flush=True)
        time.sleep(0.002)
except CanopyError as error:
    sys.exit(str(error))
"""


def is_sound(path: Path) -> bool:
    """Return whether SQLite's integrity check passes."""
    with closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)])


@pytest.mark.slow
def test_a_sweep_killed_repeatedly_measures_every_cell_once(path: Path) -> None:
    reached = []
    for lines in (1, 7):
        with subprocess.Popen([sys.executable, "-c", SWEEPING, str(path)], stdout=subprocess.PIPE,
                              text=True) as process:
            assert process.stdout
            printed = [process.stdout.readline() for _ in range(lines)]
            os.kill(process.pid, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        with Results(path) as results:
            reached.append(results.sweep(1).done)
            assert reached[-1] >= int(printed[-1])  # every cell that was printed as done is kept
    assert reached[0] < reached[1] < len(PLAN)
    with Store(path) as store:
        assert len(advance_sweep(store, 1)) == len(PLAN) - reached[-1] and store.sweep(1).done == len(PLAN)
        measured = store.measured(1)
    assert len(measured) == len(PLAN)
    assert {result.cell: result.reading.token_ids for result in measured if result.reading} == {
        cell: LABORATORY.measure(PLAN.request(cell)).token_ids for cell in CELLS}


def test_a_full_disk_is_named_in_one_sentence_and_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(path) as store:
        number = begin(store)
    connect = sqlite3.connect

    def connect_to_full_disk(*given: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **options)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", connect_to_full_disk)
        with Store(path) as store, pytest.raises(ResultsError, match="results.sqlite"):
            advance_sweep(store, number)
    with Store(path) as store:
        done = len(store.measured(number))
        assert is_sound(path) and 0 < done < len(PLAN) and len(advance_sweep(store, number)) == len(PLAN) - done


@pytest.mark.slow
@pytest.mark.parametrize("limit", [100, 60_000])
def test_an_interrupted_write_leaves_a_sound_file(path: Path, limit: int) -> None:
    ended = subprocess.run([sys.executable, "-c", SWEEPING, str(path), str(limit)], capture_output=True, text=True,
                           check=False, timeout=60)
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1) and path.name in ended.stderr
    assert is_sound(path)
    with Store(path) as store:  # without the limit, the sweep continues
        number = store.sweeps()[0].number if store.sweeps() else begin(store)
        printed = ended.stdout.split()
        assert store.sweep(number).done == (int(printed[-1]) if printed else 0)
        assert len(advance_sweep(store, number)) == len(PLAN) - len(printed)


@pytest.mark.parametrize("name", ["text", "other", "later", "empty", "missing"])
def test_other_files_are_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.sqlite"
    if name == "text":
        path.write_text("no database, but long enough to have a header. " * 9)
    elif name == "empty":
        path.touch()
    elif name != "missing":
        if name == "later":
            Store(path).close()
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript("CREATE TABLE mine (x)" if name == "other" else "PRAGMA user_version = 7")
    before = path.read_bytes() if path.exists() else None
    for kind in (Results,) if name in ("empty", "missing") else (Store, Results):
        with pytest.raises(ResultsError, match=f"{name}.sqlite"):
            kind(path)
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_path_where_no_file_can_be_is_refused_by_name(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere" / "results.sqlite", tmp_path):
        with pytest.raises(ResultsError, match=path.name):
            Store(path)


def test_a_damaged_record_is_refused_by_the_files_name(store: Store, path: Path) -> None:
    number = begin(store, FIRST)
    ask_file(path, "UPDATE cell SET reading = '{\"token_ids\": 3}' WHERE reading IS NOT NULL")
    with pytest.raises(ResultsError, match="results.sqlite"):
        store.measured(number)
    ask_file(path, "UPDATE sweep SET plan = '[[['")
    with pytest.raises(ResultsError, match="results.sqlite"):
        store.sweeps()
