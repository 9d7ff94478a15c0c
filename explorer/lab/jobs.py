"""Short measurements in the background, in the same queue as all runs: races, examinations, cost curves."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Thread
from time import monotonic
from typing import Any
from uuid import uuid4

from engine.errors import CancellationError, CanopyError, RequestError
from engine.lab.sweeping import Control
from explorer.run_queue import RunQueue
from explorer.view import View

OPEN = ("queued", "running")
MOST_OPEN = 8  # jobs that wait or run
LAPSE_SECONDS = 150.0  # without anybody who asks how far it is; a tab in the background asks once a minute
MOST_REMEMBERED = 24  # jobs with their results; the oldest is forgotten first

log = logging.getLogger("canopy")


@dataclass
class Job:
    """A short measurement. ``state`` is queued, running, done, stopped or error."""

    control: Control = field(default_factory=Control)
    state: str = "queued"
    message: str = "Waiting for the machine …"
    done: int = 0
    total: int = 0
    share: float | None = None  # of it that is done, where that is known
    result: Any = None
    asked: float = field(default_factory=monotonic)  # when its progress was last asked for

    def hear(self, message: str, share: float) -> None:
        """Take note of a step; CancellationError where the person has cancelled."""
        if self.control.stopped:
            raise CancellationError("It was stopped.")
        self.message, self.share = message, share

    def view(self) -> View:
        """For the browser; the result once it is there."""
        return {"state": self.state, "message": self.message, "done": self.done, "total": self.total,
                "share": self.share, "result": self.result}


class Jobs:
    """Jobs by their ids, each in a thread of its own that waits for its turn."""

    def __init__(self, queue: RunQueue) -> None:
        self._queue = queue
        self._kept: OrderedDict[str, Job] = OrderedDict()

    def start(self, work: Callable[[Job], Any]) -> str:
        """Begin; the job's id. ``work`` measures, and its value is the result."""
        waiting = sum(job.state in OPEN for job in self._kept.values())
        if waiting >= MOST_OPEN:
            raise RequestError(f"{waiting} measurements wait or run already; wait until one has ended.")
        name, job = uuid4().hex[:12], Job()
        self._kept[name] = job
        while len(self._kept) > MOST_REMEMBERED:
            self._kept.popitem(last=False)[1].control.stop()
        Thread(target=self._run, args=(job, work), name=f"job-{name}", daemon=True).start()
        return name

    def look(self, name: str) -> Job:
        """The job of that id; RequestError where it is gone."""
        if name not in self._kept:
            raise RequestError("That measurement is gone: the server was restarted, or has made many others since; "
                               "begin it again.")
        self._kept[name].asked = monotonic()
        return self._kept[name]

    def _run(self, job: Job, work: Callable[[Job], Any]) -> None:
        try:
            with self._queue.place() as place:
                while ahead := place.ahead():
                    if job.control.stopped or monotonic() - job.asked > LAPSE_SECONDS:
                        job.state, job.message = "stopped", ""
                        return
                    runs = "One run is" if ahead == 1 else f"{ahead} runs are"
                    job.message = f"{runs} ahead; it starts by itself."
                job.state, job.message = "running", ""
                job.result = work(job)
            job.state = "stopped" if job.control.stopped else "done"
        except CancellationError:
            job.state, job.message = "stopped", ""
        except CanopyError as error:
            job.state, job.message = "error", str(error)
        except Exception as error:
            log.exception("A measurement of the lab failed.")
            job.state, job.message = "error", (
                f"The measurement ended with an internal error ({type(error).__name__}); the server's log has the "
                "details.")
