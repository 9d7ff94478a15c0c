"""The results file: exactly once, whatever happens to the process, the disk, or the file."""

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from engine.errors import ResultsError
from engine.lab.settings import CellResult, measuring_order
from engine.lab.store import Results, Store
from engine.lab.sweeping import LocalCrew, measure, run_sweep
from tests.engine.lab.scripted import ScriptedLaboratory, go_on, toy_plan

PLAN = toy_plan()
LABORATORY = ScriptedLaboratory()


def first(turn: int = 0) -> CellResult:
    cell = measuring_order(PLAN)[turn]
    return measure(LABORATORY, PLAN.task(cell))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        number = store.begin(PLAN, LABORATORY.conditions)
        assert store.pending(number) == measuring_order(PLAN)
        found = first()
        assert store.record(number, found)
        failed = replace(first(1), reading=None, failure="The prompt is too long.")
        assert store.record(number, failed)
    with Results(path) as results:
        stored = results.sweep(number)
        assert (stored.plan, stored.conditions, stored.done, stored.finished) == (
            PLAN, LABORATORY.conditions, 2, False)
        assert results.measured(number) == [found, failed]
        assert results.pending(number) == measuring_order(PLAN)[2:]


def test_the_first_result_of_a_cell_stands(tmp_path: Path) -> None:
    with Store(tmp_path / "results.sqlite") as store:
        number = store.begin(PLAN, LABORATORY.conditions)
        assert store.record(number, first())
        assert not store.record(number, replace(first(), hardware="another"))
        strange = replace(first(), cell=replace(first().cell, prompt=99))
        assert not store.record(number, strange)
        other = replace(first().cell, setting=replace(first().cell.setting, budget=999))
        assert not store.record(number, replace(first(), cell=other))
        assert [each.hardware for each in store.measured(number)] == ["no hardware"]


def test_a_file_from_before_auto_and_concurrency_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with Store(path) as store:
        number = store.begin(PLAN, LABORATORY.conditions)
        store.record(number, first())
        plan, reading = json.loads(store._one("SELECT plan FROM sweep")), json.loads(
            store._one("SELECT reading FROM cell WHERE reading NOT NULL"))
        assert all((setting.pop("pace"), setting.pop("concurrency")) == ("fixed", 1) for setting in plan["settings"])
        assert reading.pop("committed") == []
        store._all("UPDATE sweep SET plan = ?", json.dumps(plan))
        store._all("UPDATE cell SET reading = ? WHERE reading NOT NULL", json.dumps(reading))
    with Store(path) as store:
        assert store.sweep(number).plan == PLAN and store.measured(number) == [first()]
        assert len(go_on(store, number)) == len(PLAN) - 1


def test_one_file_holds_many_sweeps(tmp_path: Path) -> None:
    with Store(tmp_path / "results.sqlite") as store:
        numbers = [store.begin(PLAN, LABORATORY.conditions) for _ in range(3)]
        store.record(numbers[1], first())
        assert [each.done for each in store.sweeps()] == [0, 1, 0]
        store.clear(numbers[1])
        assert [each.number for each in store.sweeps()] == [numbers[0], numbers[2]]
        assert store.begin(PLAN, LABORATORY.conditions) not in numbers
        with pytest.raises(ResultsError, match=f"no sweep {numbers[1]} in results.sqlite"):
            store.measured(numbers[1])


def test_readers_look_while_one_writes_and_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        number = store.begin(PLAN, LABORATORY.conditions)
        with Results(path) as results:
            store.record(number, first())
            assert len(results.measured(number)) == 1
            seen: list[int] = []
            reader = threading.Thread(target=lambda: seen.append(len(results.measured(number))))
            reader.start()
            reader.join()
            assert seen == [1]
        with pytest.raises(ResultsError, match=r"results.sqlite is being written by another sweep"):
            Store(path)
    Store(path).close()


# Goes on with the sweep of a file, a line for each cell; with a second word, where files can hold so many bytes only.
SWEEPING = """
import resource, signal, sys, time
from pathlib import Path
from threading import Event
from engine.errors import CanopyError
from engine.lab.store import Store
from engine.lab.sweeping import LocalCrew, run_sweep
from tests.engine.lab.scripted import ScriptedLaboratory, toy_plan

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in sys.argv[2:]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
try:
    store = Store(Path(sys.argv[1]))
    number = store.begin(toy_plan(), ScriptedLaboratory().conditions) if not store.sweeps() else 1
    for step in run_sweep(store, number, LocalCrew(ScriptedLaboratory()), Event()):
        print(step.done, flush=True)
        time.sleep(0.002)
except CanopyError as error:
    sys.exit(str(error))
"""


@pytest.mark.slow
def test_a_sweep_that_is_killed_again_and_again_measures_every_cell_once(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    reached = []
    for lines in (1, 4, 7):
        with subprocess.Popen([sys.executable, "-c", SWEEPING, str(path)], stdout=subprocess.PIPE,
                              text=True) as process:
            assert process.stdout
            said = [process.stdout.readline() for _ in range(lines)]
            os.kill(process.pid, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        with Results(path) as results:
            reached.append(results.sweep(1).done)
            assert reached[-1] >= int(said[-1])  # what was said to be done is kept
    assert reached == sorted(reached)
    assert reached[-1] < len(PLAN)
    with Store(path) as store:
        steps = go_on(store, 1)
        assert len(steps) == len(PLAN) - reached[-1]
        measured = store.measured(1)
        assert store.sweep(1).finished
    assert len(measured) == len({each.cell for each in measured}) == len(PLAN)
    assert {each.cell: each.reading.token_ids for each in measured if each.reading} == {
        cell: LABORATORY.measure(PLAN.ask(cell)).token_ids for cell in measuring_order(PLAN)}


def sound(path: Path) -> bool:
    """Does SQLite itself find nothing wrong with the file?"""
    connection = sqlite3.connect(path)
    try:
        return bool(connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)])
    finally:
        connection.close()


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        number = store.begin(PLAN, LABORATORY.conditions)
        pages = store._all("PRAGMA page_count")[0][0]
        store._all(f"PRAGMA max_page_count = {pages + 2}")
        done = 0
        with pytest.raises(ResultsError, match="the disk is full.*is kept"):
            for step in run_sweep(store, number, LocalCrew(LABORATORY), Event()):
                done = step.done
        assert 0 < done < len(PLAN)
        assert len(store.measured(number)) == done
    assert sound(path)
    with Store(path) as store:
        assert len(go_on(store, number)) == len(PLAN) - done


@pytest.mark.slow
@pytest.mark.parametrize("limit", [100, 60_000])
def test_a_write_that_the_system_cuts_off_leaves_a_sound_file(tmp_path: Path, limit: int) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    path = tmp_path / "results.sqlite"
    done = subprocess.run([sys.executable, "-c", SWEEPING, str(path), str(limit)], capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("The results file results.sqlite cannot be written")
    assert done.stderr.count("\n") == 1
    assert sound(path)
    with Store(path) as store:  # with room again, it is as good as ever
        number = store.sweeps()[0].number if store.sweeps() else store.begin(PLAN, LABORATORY.conditions)
        said = done.stdout.split()
        assert store.sweep(number).done == (int(said[-1]) if said else 0)
        assert len(go_on(store, number)) == len(PLAN) - len(said)


def test_other_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "text.sqlite").write_text("no database, but long enough to have a header. " * 9)
    (tmp_path / "empty.sqlite").touch()
    other = sqlite3.connect(tmp_path / "other.sqlite")
    other.execute("CREATE TABLE mine (x)")
    other.commit()
    other.close()
    later = tmp_path / "later.sqlite"
    Store(later).close()
    change = sqlite3.connect(later)
    change.execute("PRAGMA user_version = 7")
    change.close()
    for name, sentence, kinds in (
            ("text", "text.sqlite is not a results file of Canopy: it is not a SQLite file", (Store, Results)),
            ("other", "other.sqlite is not a results file of Canopy: it is a SQLite file of another", (Store, Results)),
            ("later", "later.sqlite is a results file of version 7, and this Canopy reads version 1", (Store, Results)),
            ("empty", "empty.sqlite is not a results file of Canopy: it is empty", (Results,)),
            ("missing", "There is no results file missing.sqlite", (Results,))):
        path = tmp_path / f"{name}.sqlite"
        before = path.read_bytes() if path.exists() else None
        for kind in kinds:
            with pytest.raises(ResultsError, match=sentence):
                kind(path)
        assert (path.read_bytes() if path.exists() else None) == before
    with pytest.raises(ResultsError, match="cannot be made there: No such file or directory"):
        Store(tmp_path / "nowhere" / "results.sqlite")
    with pytest.raises(ResultsError, match="is a folder, and only an ordinary file is written"):
        Store(tmp_path)


def test_a_damaged_record_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        number = store.begin(PLAN, LABORATORY.conditions)
        store.record(number, first())
        store._all("UPDATE cell SET reading = '{\"token_ids\": 3}' WHERE reading IS NOT NULL")
        with pytest.raises(ResultsError, match="results.sqlite is damaged: a record in it cannot be read"):
            store.measured(number)
        store._all("UPDATE sweep SET plan = '[[['")
        with pytest.raises(ResultsError, match="results.sqlite is damaged"):
            store.sweeps()
