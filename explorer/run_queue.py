"""The queue for the machine, and the jobs in it: runs share the machine as far as there is room, a measurement has it
to itself, and everybody who waits is told why."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Event, Thread
from time import monotonic
from typing import Any, TypedDict
from uuid import uuid4

from engine.errors import CancellationError, CanopyError, RequestError

WAITING_ROOM = 24  # runs in progress and in the line, each with its place shown
MAX_PLACES = 4  # in the line, of one address
ALL = 1.0  # of the room: what a measurement takes
MAX_SHARE_OF_ONE = 0.5  # of the room, for the runs of one address; a single run may take more if it is free
ROUNDING = 1e-9  # that parts of the room may add up to more than all of it
MAX_OPEN = 8  # jobs that wait or run
LAPSE_SECONDS = 150.0  # without anybody who asks how far a job is; a tab in the background asks once a minute
MAX_REMEMBERED = 24  # jobs with their results; the oldest is forgotten first

log = logging.getLogger("canopy")


@dataclass(eq=False)
class Place:
    """A place in the queue: whose it is, how much of the room it takes, the id of its run (empty for a measurement),
    and whether it has begun."""

    queue: "RunQueue"
    address: str
    share: float
    run: str = ""
    begun: bool = False

    def sentences(self) -> Iterator[str]:
        """Why it waits, some times a second, until it begins."""
        while sentence := self.queue.wait(self, 0.25):
            yield sentence


class RunQueue:
    """A queue in order of arrival. A waiting run asks for its place as often as it likes and may leave at any time.

    A run that needs more room than is left keeps all later ones waiting, so that it gets its turn; one whose address
    already has its part of the room is passed over.
    """

    def __init__(self) -> None:
        self._change = Condition()
        self._line: list[Place] = []
        self._asking = 0

    @contextmanager
    def place(self, address: str = "", share: float = ALL, run: str = "") -> Iterator[Place]:
        """A place at the end of the queue, given up on leaving the block, served or not. RequestError if that
        address already has as many places as it may have; an empty address is the server itself."""
        place = Place(self, address, share, run)
        with self._change:
            if address and sum(other.address == address for other in self._line) >= MAX_PLACES:
                raise RequestError(f"You already have {MAX_PLACES} runs in progress or waiting, which is the most for "
                                   "one address; wait until one has ended, or stop one.")
            self._line.append(place)
            self._admit()
        try:
            yield place
        finally:
            with self._change:
                self._line.remove(place)
                self._admit()
                self._change.notify_all()

    def _admit(self) -> None:
        """Let runs begin, in order of arrival, as far as there is room."""
        for place in self._line:
            if place.begun or self._has_its_part(place):
                continue
            if self._taken() + place.share > ALL + ROUNDING:
                return
            place.begun = True

    def _taken(self, address: str | None = None) -> float:
        return sum(place.share for place in self._line if place.begun and address in (None, place.address))

    def _has_its_part(self, place: Place) -> bool:
        taken = self._taken(place.address) if place.address else 0.0
        return taken > 0 and taken + place.share > MAX_SHARE_OF_ONE + ROUNDING

    def alone(self, act: Callable[[], None], seconds: float = 0.0) -> bool:
        """Do something short while no run is in progress or waiting, after waiting at most ``seconds`` for that; False
        where one still is."""
        with self._change:
            if self._line and seconds:
                self._asking += 1
                try:
                    self._change.wait_for(lambda: not self._line, seconds)
                finally:
                    self._asking -= 1
            if not self._line:
                act()
                return True
            return False

    def waiting(self, besides: str = "") -> int:
        """How many run or wait, including callers of ``alone``; a run with the id ``besides`` does not count."""
        with self._change:
            return sum(not besides or place.run != besides for place in self._line) + self._asking

    def begun(self) -> int:
        """How many runs share the machine now."""
        with self._change:
            return sum(place.begun for place in self._line)

    def wait(self, place: Place, seconds: float) -> str:
        """Why the place waits, after waiting at most ``seconds`` for it to begin; empty once it has."""
        with self._change:
            if not place.begun:
                self._change.wait(seconds)
            if place.begun:
                return ""
            begun = [other for other in self._line if other.begun]
            waiting = sum(not other.begun for other in self._line[:self._line.index(place)])
        if not begun or any(other.share >= ALL for other in begun):
            alone = "A large run has" if any(other.run for other in begun) else "A measurement has"
            what = f"{alone} the machine to itself" if begun else "The machine is busy"
            ending = "it has ended"
        else:
            what = "One run is in progress" if len(begun) == 1 else f"{len(begun)} runs share this machine"
            ending = "it has ended" if len(begun) == 1 else "one of them ends"
        before = {0: "yours", 1: "one more waits before yours, which"}.get(
            waiting, f"{waiting} more wait before yours, which")
        return f"{what}; {before} starts when {ending}."


@dataclass(eq=False)
class Job:
    """Work in the background, and how far it is. ``state`` is queued, running, done, error, or ``if_stopped`` if it
    was stopped on the way; ``result`` may grow while it runs."""

    name: str = ""
    state: str = "queued"
    message: str = "Waiting for the machine …"
    done: int = 0
    total: int = 0
    share: float | None = None  # of it that is done, if that is known
    seconds_left: float | None = None
    result: Any = None
    stop: Event = field(default_factory=Event)  # finish what is in hand, and begin nothing new
    if_stopped: str = "stopped"
    lapses: bool = True  # in the line, if nobody asks for it any more
    asked: float = field(default_factory=monotonic)  # when its progress was last asked for

    @property
    def open(self) -> bool:
        return self.state in ("queued", "running")

    def tell(self, message: str, share: float | None = None) -> None:
        """Take note of a step; CancellationError if the person has cancelled."""
        if self.stop.is_set():
            raise CancellationError("It was stopped.")
        self.message, self.share = message, share

    def view(self) -> "JobView":
        return {"state": self.state, "message": self.message, "done": self.done, "total": self.total,
                "share": self.share, "result": self.result}

    def begin(self, queue: RunQueue, work: "Callable[[Job], Any]") -> None:
        """Do the work in a thread, once it has the machine to itself; what ``work`` gives is the result."""
        Thread(target=self._run, args=(queue, work), name="job", daemon=True).start()

    def _run(self, queue: RunQueue, work: "Callable[[Job], Any]") -> None:
        try:
            with queue.place() as place:
                for sentence in place.sentences():
                    self.message = sentence
                    if self.stop.is_set() or self.lapses and monotonic() - self.asked > LAPSE_SECONDS:
                        raise CancellationError("It was stopped.")
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
    """How far a job is; see ``Job``."""

    state: str
    message: str
    done: int
    total: int
    share: float | None
    result: Any


class Jobs:
    """Jobs by their ids."""

    def __init__(self, queue: RunQueue) -> None:
        self._queue = queue
        self._kept: OrderedDict[str, Job] = OrderedDict()

    def start(self, work: Callable[[Job], Any]) -> str:
        waiting = sum(job.open for job in self._kept.values())
        if waiting >= MAX_OPEN:
            raise RequestError(f"{waiting} measurements wait or run already; wait until one has ended.")
        name = uuid4().hex[:12]
        job = self._kept[name] = Job()
        job.begin(self._queue, work)
        while len(self._kept) > MAX_REMEMBERED:
            self._kept.popitem(last=False)[1].stop.set()
        return name

    def look(self, wanted: Mapping[str, Any]) -> JobView:
        """How far a job is: {"job": its id, "stop": True to end it}; RequestError if it is gone."""
        job = self._kept.get(str(wanted.get("job")))
        if job is None:
            raise RequestError("That measurement is gone: the server was restarted, or has made many others since; "
                               "begin it again.")
        job.asked = monotonic()
        if wanted.get("stop"):
            job.stop.set()
        return job.view()
