"""The progress of a sweep as the page shows it: state, runs done, time left, and the list of earlier sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from time import monotonic

from engine.lab.report import sweep_command
from engine.lab.settings import CellResult
from engine.lab.store import StoredSweep
from explorer.lab.recorded import is_recorded
from explorer.lab.sweeps import Sweeps
from explorer.view import View

SECONDS_BETWEEN_READS = 5.0  # of the results file's list, while nothing here is changing it
MOST_LISTED = 40


class SweepList:
    """The sweeps of the results file, as a list that is cheap to ask for often."""

    def __init__(self, sweeps: Sweeps) -> None:
        self._sweeps = sweeps
        self._known: list[StoredSweep] = []
        self._read_at = float("-inf")
        self._read_for: tuple[int | None, str] = None, ""

    def all(self) -> list[StoredSweep]:
        """The sweeps, the oldest first."""
        active = self._sweeps.active()
        state = (active.number if active else None), ""
        fresh = active is not None or monotonic() - self._read_at < SECONDS_BETWEEN_READS
        if not fresh or state != self._read_for:
            self._known, self._read_at, self._read_for = self._sweeps.stored(), monotonic(), state
        return self._known

    def forget(self) -> None:
        """The file was changed: read the list again when it is next asked for."""
        self._read_at = float("-inf")

    def chosen(self, wanted: object) -> StoredSweep | None:
        """The sweep asked for; without one, or where it is gone, the one being measured, else of the loaded rig the
        latest, else the first recorded one."""
        recorded = [each.stored for each in self._sweeps.recorded]
        known = {stored.number: stored for stored in (*recorded, *self.all())}
        active = self._sweeps.active()
        loaded = [number for number, stored in known.items() if not self._sweeps.of_another_rig(stored)]
        numbers = [wanted, active.number if active else None, max(loaded, default=None)]
        return next((known[number] for number in numbers if isinstance(number, int) and number in known), None)


def progress_view(shelf: SweepList, sweeps: Sweeps, wanted: object) -> View:
    """What the page shows of the chosen sweep; see ``assets/lab/sweep.js``."""
    stored, active = shelf.chosen(wanted), sweeps.active()
    listed = [_listed(each, sweeps) for each in (*reversed(shelf.all()[-MOST_LISTED:]),
                                                 *(recorded.stored for recorded in sweeps.recorded))]
    if stored is None:
        return {"sweep": None, "other_rig": "", "state": "none", "message": "", "done": 0, "total": 0, "failed": 0,
                "seconds_left": None, "recorded": None, "busy_elsewhere": False, "command": "", "sweeps": listed}
    going = sweeps.going(stored.number)
    return {
        **_listed(stored, sweeps), "sweep": stored.number, "sweeps": listed, "command": sweep_command(stored.plan),
        "other_rig": stored.conditions.rig if sweeps.of_another_rig(stored) else "", "recorded": recorded_view(stored),
        "message": going.message if going else "", "seconds_left": going.seconds_left if going else None,
        "failed": sum(found.reading is None for found in list(going.found)) if going else 0,
        "busy_elsewhere": active is not None and active.number != stored.number}


def recorded_view(stored: StoredSweep) -> View | None:
    """Of the sweep that ships with the page: {date, rig, hardware, dtype}; None of any other."""
    if not is_recorded(stored.number):
        return None
    seen = stored.conditions
    return {"date": stored.started[:10], "rig": seen.rig, "hardware": seen.hardware, "dtype": seen.dtype}


def _listed(stored: StoredSweep, sweeps: Sweeps) -> View:
    going = sweeps.going(stored.number)
    done = going.done if going else stored.done
    usual = "done" if done == len(stored.plan) else "stopped"
    together = max(setting.together for setting in stored.plan.settings)
    return {"number": stored.number, "rig": stored.conditions.rig, "other_rig": sweeps.of_another_rig(stored),
            "together": together, "started": stored.started, "done": done, "total": len(stored.plan),
            "state": going.state if going else usual}


def seconds_per_run(measured: Sequence[CellResult]) -> float | None:
    """The mean time of a run with one request, its prompt's reading included; None without one. One of n requests
    counts as (n + 1) / 2 such runs: their rounds are shared, and longer."""
    spent = [2 * (found.reading.seconds + found.reading.prefill_seconds) / (found.cell.setting.together + 1)
             for found in measured if found.reading]
    return fmean(spent) if spent else None
