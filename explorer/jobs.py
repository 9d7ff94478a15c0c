"""Measurements in the background. Each waits until it has the machine to itself."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event, Thread
from time import monotonic
from typing import Any, TypedDict
from uuid import uuid4

from engine.errors import CancellationError, CanopyError, RequestError
from engine.requests.admission import Admission

MAX_OPEN_JOBS = 8  # that wait or run
POLL_TIMEOUT_SECONDS = 150.0  # a queued job that nobody polls for longer ends; a background tab polls once a minute
MAX_REMEMBERED_JOBS = 24  # the oldest is forgotten first

log = logging.getLogger("canopy")


@dataclass(eq=False)
class Job:
    """Work in the background. ``state``: queued, running, done, error, or ``if_stopped`` if it was stopped; ``result``
    may grow while it runs."""

    name: str = ""
    state: str = "queued"
    message: str = "Waiting for the machine …"
    done: int = 0
    total: int = 0
    share: float | None = None  # the fraction that is done; None if unknown
    seconds_left: float | None = None
    result: Any = None
    stop: Event = field(default_factory=Event)  # set: finish the current step, begin no other
    if_stopped: str = "stopped"
    needs_polling: bool = True  # whether it leaves the queue if nobody polls it
    polled_at: float = field(default_factory=monotonic)  # when it was last polled

    @property
    def open(self) -> bool:
        return self.state in ("queued", "running")

    def report(self, message: str, share: float | None = None) -> None:
        """Report a step. Raises CancellationError if the user has cancelled."""
        if self.stop.is_set():
            raise CancellationError("It was stopped.")
        self.message, self.share = message, share

    def view(self) -> "JobView":
        return {"state": self.state, "message": self.message, "done": self.done, "total": self.total,
                "share": self.share, "result": self.result}

    def begin(self, admission: Admission, work: "Callable[[Job], Any]") -> None:
        """Run ``work`` in a thread once it has the machine exclusively. What it returns becomes ``result``."""
        Thread(target=self._run, args=(admission, work), name="job", daemon=True).start()

    def _wait(self, sentence: str) -> None:
        self.message = sentence
        if self.stop.is_set() or self.needs_polling and monotonic() - self.polled_at > POLL_TIMEOUT_SECONDS:
            raise CancellationError("It was stopped.")

    def _run(self, admission: Admission, work: "Callable[[Job], Any]") -> None:
        try:
            with admission.exclusive(self._wait):
                self.state, self.message = "running", ""
                self.result = work(self)
            cut_short = self.stop.is_set() and not (self.total and self.done == self.total)
            self.state, self.message = self.if_stopped if cut_short else "done", ""
        except CancellationError:
            self.state, self.message = self.if_stopped, ""
        except CanopyError as error:
            self.state, self.message = "error", str(error)
        except Exception as error:
            log.exception("A measurement failed.")
            self.state, self.message = "error", (
                f"The measurement ended with an internal error ({type(error).__name__}); the server's log has the "
                "details.")


class JobView(TypedDict):
    """A job's progress, for the browser."""

    state: str
    message: str
    done: int
    total: int
    share: float | None
    result: Any


class Jobs:
    """Jobs by id."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def start(self, work: Callable[[Job], Any]) -> str:
        waiting = sum(job.open for job in self._jobs.values())
        if waiting >= MAX_OPEN_JOBS:
            raise RequestError(f"{waiting} measurements wait or run already; wait until one has ended.")
        name = uuid4().hex[:12]
        job = self._jobs[name] = Job()
        job.begin(self._admission, work)
        while len(self._jobs) > MAX_REMEMBERED_JOBS:
            self._jobs.popitem(last=False)[1].stop.set()
        return name

    def poll(self, query: Mapping[str, Any]) -> JobView:
        """Return a job's progress for {"job": id}; with "stop": true, stop it. Raises RequestError for an unknown
        id."""
        job = self._jobs.get(str(query.get("job")))
        if job is None:
            raise RequestError("That measurement is gone: the server was restarted, or has made many others since; "
                               "begin it again.")
        job.polled_at = monotonic()
        if query.get("stop"):
            job.stop.set()
        return job.view()
