"""The page's first rig, and choosing another one while the page runs: it is loaded in the background, takes over when
the queue is empty, and serves everybody.

Until another rig is ready, and if it cannot be loaded, the present rig goes on answering; before the first one,
that is the recordings.
"""

import json
import logging
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from time import sleep
from typing import Any, TypedDict

from engine.errors import CancellationError, CanopyError, RequestError
from engine.machine.progress import ReportProgress
from engine.requests.admission import Admission
from engine.requests.rig_names import (
    HUB_RIGS,
    REVISION_MARK,
    RIGS_FOLDER,
    DefaultSetting,
    default_setting,
    is_address,
    rig_names,
    server_address,
)
from explorer.browser_calls import browser_call
from explorer.jobs import Job
from explorer.rig import CurrentRig, Instruments, Source

MAX_IDLE_WAIT_SECONDS = 1.0  # a brief measurement may follow a run; loading waits this long for its end
MAX_NAME_LENGTH = 500  # characters
POLL_SECONDS, COST_PAUSE_SECONDS = 0.1, 2.0  # of the measurement of costs; the pause before it is tried again
RIG_IS_FIXED = "The rig of this page was chosen when it was started."
CANCELLED = "The rig was not loaded; loading was cancelled."

log = logging.getLogger("canopy")

# (name, the source that goes on answering meanwhile, progress) -> the loaded rig. An exception that ``progress`` raises
# ends the loading; CanopyError, with a message for the user, says why the rig cannot be loaded.
OpenRig = Callable[[str, Source, ReportProgress], Instruments]


class NamedRig(TypedDict):
    """A rig that can be chosen by its name."""

    name: str
    note: str


class Loading(TypedDict):
    """A rig that is being loaded; ``share`` is the fraction that is done, None if unknown."""

    name: str
    message: str
    share: float | None


class RigState(TypedDict):
    """The rig that answers, those that can be chosen, and the one that is being loaded.

    ``gains``: in words, how fast each node budget usually is here; {} if unknown. ``first_load``: the name of the first
    rig until it is loaded or refused. ``generation``: how often the rig was replaced; a page that holds another number
    must fetch the rig's options again. ``choice_disabled``: why none can be chosen. ``retry``: the address of a server
    that could not be attached as the first rig."""

    rig: str
    hardware: str
    opened_as: str
    good_at: str
    defaults: DefaultSetting
    gains: dict[str, str]
    reason: str
    generation: int
    choice_disabled: str
    named: list[NamedRig]
    first_load: str
    failure: str
    retry: str
    loading: Loading | None


def gain_text(low: float, high: float) -> str:
    """Put the speed-ups of slow and of fast prompts in words."""
    return f"usually {f'{low:.1f} to {high:.1f}×' if high > 1 else 'slower than'} plain decoding here"


def loading(name: str) -> Job:
    """Return the job that loads the rig of that name."""
    return Job(name, message="Looking at its files …")


class RigChoice:
    """The functions about rigs that the browser may call, and the loading of rigs.

    Args:
        choice_disabled: why people may not choose a rig in the page; empty if they may.
        free_memory: called when a rig was replaced or could not be loaded.
    """

    def __init__(self, rig: CurrentRig, admission: Admission, open_rig: OpenRig | None = None,
                 choice_disabled: str = "", free_memory: Callable[[], None] = lambda: None) -> None:
        self._rig = rig
        self.admission = admission
        self._open_rig, self._free_memory = open_rig, free_memory
        self._choice_disabled = choice_disabled or ("" if open_rig else RIG_IS_FIXED)
        self._lock = Lock()
        self._load = rig.first_load
        self._first_begun = False
        self._failure = ""
        self._unreachable_server = ""  # the address of a server that could not be attached as the first rig

    def functions(self) -> list[Callable[[Any], Any]]:
        """Return the functions that the browser calls by name; each gives the state, or {"error": a sentence}."""
        answers = {"rig_state": self.state, "rig_choose": self.choose, "rig_cancel": self.cancel,
                   "rig_retry": self.retry}
        return [browser_call(name, answer) for name, answer in answers.items()]

    def state(self, _: Mapping[str, Any]) -> RigState:
        source, instruments, load, first = self._rig.source, self._rig.instruments, self._load, self._rig.first_load
        return {
            "rig": source.name, "hardware": source.hardware, "opened_as": instruments.opened_as,
            "good_at": source.good_at, "defaults": default_setting(instruments.opened_as),
            "gains": {str(budget): gain_text(*gain) for budget, gain in instruments.gains.items()},
            "reason": instruments.reason, "generation": self._rig.generation, "choice_disabled": self._choice_disabled,
            "named": [{"name": name, "note": note_of(name)} for name in rig_names()],
            "first_load": first.name if first else "", "failure": self._failure, "retry": self._unreachable_server,
            "loading": {"name": load.name, "message": load.message, "share": load.share} if load else None}

    def choose(self, query: Mapping[str, Any]) -> RigState:
        """Begin to load {"rig": a name, a folder, or TARGET::DRAFTER}; RequestError if that cannot begin now."""
        if self._choice_disabled:
            raise RequestError(self._choice_disabled)
        name = str(query.get("rig") or "").strip()
        if not 0 < len(name) <= MAX_NAME_LENGTH:
            raise RequestError("Name a rig: one from the list, a folder with a rig.json, or TARGET::DRAFTER, each a "
                               f"folder or a model id, in at most {MAX_NAME_LENGTH} characters.")
        name = server_address(name) if is_address(name) else name  # without a password, which nobody else may see
        with self._lock:
            if self._load:
                raise RequestError(f"{self._load.name} is being loaded; cancel that, or wait until it answers.")
            if name == self._rig.instruments.opened_as and not self._rig.instruments.reason:
                raise RequestError(f"{name} is the rig that answers already.")
            if not self.admission.when_idle(lambda: self._begin(name), MAX_IDLE_WAIT_SECONDS):
                raise RequestError("A run or a measurement is in progress, and loading would distort its figures; "
                                   "choose the rig when it has ended, or stop it.")
        return self.state({})

    def cancel(self, _: Mapping[str, Any]) -> RigState:
        """Cancel the loading of a rig; it ends at the next step or piece of the download."""
        if load := self._load:
            load.stop.set()
            load.message, load.share = "Cancelling after the current step …", None
        return self.state({})

    def retry(self, _: Mapping[str, Any]) -> RigState:
        """Try again to attach the server that could not be the first rig."""
        with self._lock:
            if self._unreachable_server and not self._load:
                self._begin(self._unreachable_server)
        return self.state({})

    def load_first(self, fallback: str, without: Callable[[str], Instruments]) -> None:
        """Load the page's first rig in a thread, else ``fallback``, else the stand-in that ``without`` makes of the
        reason. A second call does nothing."""
        with self._lock:
            already_begun, self._first_begun = self._first_begun, True
        if not already_begun and (first := self._rig.first_load):
            Thread(target=self._load_first_or_fallback, args=(first, fallback, without), name="first rig",
                   daemon=True).start()

    def _load_first_or_fallback(self, first: Job, fallback: str, without: Callable[[str], Instruments]) -> None:
        reason = failure = self._open(first)
        if failure and not first.stop.is_set() and fallback != first.name:
            log.warning("%s", failure)
            self._load = self._rig.first_load = loading(fallback)
            failure = self._open(self._load, reason)
        if failure:
            log.warning("%s", failure)
            self._rig.replace(without(reason))
        self._free_memory()
        self._failure = self._rig.note or reason
        self._unreachable_server = first.name if reason and is_address(first.name) else ""
        self._load = self._rig.first_load = None
        self._measure_cost()

    def _begin(self, name: str) -> None:
        self._load, self._failure = loading(name), ""
        Thread(target=self._replace, args=(self._load,), name="rig", daemon=True).start()

    def _replace(self, load: Job) -> None:
        failure = self._open(load)
        self._free_memory()
        if failure and not load.stop.is_set():
            self._failure = f"{failure.rstrip('.')}; the {self._rig.source.name} goes on answering."
        elif not failure:
            self._unreachable_server = ""
        self._load = None
        if not failure:
            self._measure_cost()

    def _measure_cost(self) -> None:
        """Measure what a pass costs, so that speeds are predicted from the first run on. It ends when a run comes, and
        begins again when the machine has been idle."""
        instruments = self._rig.instruments

        def interrupt() -> None:
            if self.admission.count_entries() > 1:
                raise CancellationError("A run came.")
        while instruments is self._rig.instruments and not (instruments.reason or instruments.gains):
            if not self.admission.count_entries():
                job = Job(needs_polling=False)
                job.begin(self.admission, lambda _: instruments.measure_cost_roughly(interrupt))
                while job.open:
                    sleep(POLL_SECONDS)
                if job.state != job.if_stopped:
                    break
            sleep(COST_PAUSE_SECONDS)

    def _open(self, load: Job, reason: str = "") -> str:
        """Load a rig, and serve the page with it as soon as no run is in progress or waiting. ``reason``: why it
        answers instead of another rig. Returns why it cannot be loaded; empty if it was."""
        if self._open_rig is None:
            return RIG_IS_FIXED
        try:
            loaded, former = self._open_rig(load.name, self._rig.source, load.report), self._rig.source
            note = f"{reason} The {loaded.source.name} answers instead." if reason else ""
            while not self.admission.when_idle(lambda: self._rig.replace(loaded, note), seconds=0.25):
                load.report("Loaded; it answers as soon as the run or measurement in progress has ended.", 1.0)
            former.close()
        except CancellationError:
            return CANCELLED
        except CanopyError as error:
            return str(error)
        except Exception as error:
            log.exception("The rig %s could not be loaded.", load.name)
            return (f"{load.name} could not be loaded: an internal error ({type(error).__name__}); the server's log "
                    "has the details.")
        return ""


def note_of(name: str) -> str:
    """Describe a named rig in a few words."""
    if name not in HUB_RIGS:
        try:
            package = json.loads((RIGS_FOLDER / name / "rig.json").read_text("utf8"))["package"]["name"]
        except (OSError, ValueError, TypeError, LookupError):  # none; a broken card is reported when it is chosen
            return "comes with Canopy, needs no network"
        return f"target from the Python package {package}"
    pair = HUB_RIGS[name]
    target, *drafters = (place.partition(REVISION_MARK)[0] for place in (pair.target, *pair.drafters))
    needs = pair.needs or "Formats tested, published weights not run."
    return f"{target} with {', '.join(drafters)}, from the hub. {needs}"
