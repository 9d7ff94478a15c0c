"""The page's sweeps: one at a time, in the same queue as all runs, kept in one results file.

A sweep holds its place in the line from its first cell to its last, so nothing runs beside what it measures. Paused,
it gives the place up and takes another when it goes on. The browser only asks for its progress: closing the page ends
nothing, and after a restart of the app a sweep that was begun can be resumed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread

from engine.errors import CanopyError, RequestError
from engine.lab.settings import CellResult, SweepPlan
from engine.lab.store import Results, Store, StoredSweep
from engine.lab.sweeping import Control, LocalCrew, run_sweep
from explorer.lab.recorded import RecordedSweep, is_recorded, shipped
from explorer.run_queue import Place, RunQueue
from explorer.sources.answering import AnsweringRig

OPEN = ("queued", "running")
MOST_REMEMBERED = 3  # earlier sweeps whose results stay in memory; those of others are read from the file

log = logging.getLogger("canopy")


@dataclass
class ActiveSweep:
    """A sweep that this process has begun or taken up again, as it stands now."""

    number: int
    total: int
    done: int
    found: list[CellResult]
    control: Control = field(default_factory=Control)
    state: str = "queued"
    after: str = "stopped"  # what it is once its last cell is in, where cells are left
    message: str = "Waiting for the machine …"
    seconds_left: float | None = None


class Sweeps:
    """The sweeps of a results file, and the one that is being measured."""

    def __init__(self, rig: AnsweringRig, queue: RunQueue, path: Path, recorded: Sequence[RecordedSweep] = ()) -> None:
        self.recorded = tuple(recorded or shipped())
        self._rig = rig
        self._queue = queue
        self._path = path
        self._lock = Lock()
        self._going: dict[int, ActiveSweep] = {}

    def start(self, plan: SweepPlan) -> int:
        """Begin a sweep; its number. RequestError while another one is measuring."""
        with self._lock:
            self._refuse_two()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            store = Store(self._path)
            with _closed_on_failure(store):
                number = store.begin(plan, self._rig.instruments.laboratory.conditions)
            self._take_up(ActiveSweep(number, len(plan), 0, []), store)
        return number

    def resume(self, number: int) -> None:
        """Go on with one that was paused, stopped, or cut off with the app."""
        with self._lock:
            self._refuse_two()
            store = Store(self._path)
            with _closed_on_failure(store):
                stored, found = store.sweep(number), store.measured(number)
            self._take_up(ActiveSweep(number, len(stored.plan), stored.done, found), store)

    def pause(self, number: int) -> None:
        """Finish the current run, then let others use the machine."""
        self._end(number, "paused")

    def stop(self, number: int) -> None:
        """Finish the current run, then end."""
        self._end(number, "stopped")

    def delete(self, number: int) -> None:
        """Forget a sweep and all its results; RequestError while it is being measured."""
        with self._lock:
            going = self._going.get(number)
            if going is not None and going.state in OPEN:
                raise RequestError(f"Sweep {number} is being measured ({going.done} of {going.total} runs); stop it "
                                   "before it is deleted.")
            with Store(self._path) as store:
                store.sweep(number)
                store.clear(number)
            self._going = {other: each for other, each in self._going.items() if other != number}

    def _end(self, number: int, after: str) -> None:
        with self._lock:
            going = self._going.get(number)
            if going is None:
                raise RequestError(f"The sweep {number} is not being measured.")
            going.after = after
            if going.state in OPEN:
                going.control.stop()
            else:
                going.state = after

    def _refuse_two(self) -> None:
        for going in self._going.values():
            if going.state in OPEN:
                raise RequestError(f"Sweep {going.number} is being measured ({going.done} of {going.total} runs); "
                                   "stop it, or wait until it is done.")

    def _take_up(self, going: ActiveSweep, store: Store) -> None:
        kept = [number for number in self._going if number != going.number][-MOST_REMEMBERED:]
        self._going = {**{number: self._going[number] for number in kept}, going.number: going}
        Thread(target=self._work, args=(going, store), name=f"sweep-{going.number}", daemon=True).start()

    def _work(self, going: ActiveSweep, store: Store) -> None:
        try:
            with store, self._queue.place() as place:
                if _come_up(going, place):
                    self._measure(going, store)
            going.state, going.message = ("done" if going.done == going.total else going.after), ""
        except CanopyError as error:
            going.state, going.message = "error", str(error)
        except Exception as error:
            log.exception("The sweep %s failed.", going.number)
            going.state, going.message = "error", (
                f"The sweep ended with an internal error ({type(error).__name__}); what was measured is kept, and the "
                "server's log has the details.")

    def _measure(self, going: ActiveSweep, store: Store) -> None:
        going.state, going.message = "running", "Warming up: every setting runs once, unmeasured."
        for progress in run_sweep(store, going.number, LocalCrew(self._rig.instruments.laboratory), going.control):
            going.found.append(progress.measured)
            going.done, going.seconds_left, going.message = progress.done, progress.seconds_left, ""

    def going(self, number: int) -> ActiveSweep | None:
        """The sweep as it stands, where this process has begun it or taken it up again."""
        return self._going.get(number)

    def active(self) -> ActiveSweep | None:
        """The sweep that waits or measures now."""
        return next((going for going in self._going.values() if going.state in OPEN), None)

    def stored(self) -> list[StoredSweep]:
        """All sweeps of the results file, the oldest first; none where there is no file yet."""
        if not self._path.is_file():
            return []
        with Results(self._path) as results:
            found: list[StoredSweep] = results.sweeps()
        return found

    def of_another_rig(self, stored: StoredSweep) -> bool:
        """Whether it was measured on another rig than the one that answers now."""
        return bool(stored.conditions.rig != self._rig.instruments.laboratory.conditions.rig)

    def of_several(self, stored: StoredSweep | None) -> StoredSweep | None:
        """The sweep; in place of a recorded one of one request at a time, one of several of the same rig, if there is
        one."""
        if stored is None or not is_recorded(stored.number) or _several(stored):
            return stored
        return next((each.stored for each in self.recorded
                     if each.stored.conditions.rig == stored.conditions.rig and _several(each.stored)), stored)

    def measured(self, number: int) -> list[CellResult]:
        """What came of a sweep's cells so far."""
        for recorded in self.recorded:
            if recorded.stored.number == number:
                return list(recorded.measured)
        going = self._going.get(number)
        if going is not None:
            return list(going.found)
        with Results(self._path) as results:
            found: list[CellResult] = results.measured(number)
        return found


def _several(stored: StoredSweep) -> bool:
    return any(setting.together > 1 for setting in stored.plan.settings)


def _come_up(going: ActiveSweep, place: Place) -> bool:
    """Wait for the machine; False where the sweep was stopped on the way."""
    while ahead := place.ahead():
        if going.control.stopped:
            return False
        runs = "One run is" if ahead == 1 else f"{ahead} runs are"
        going.message = f"{runs} ahead of the sweep; it starts by itself."
    return True


@contextmanager
def _closed_on_failure(store: Store) -> Iterator[None]:
    try:
        yield
    except BaseException:
        store.close()
        raise
