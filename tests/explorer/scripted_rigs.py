"""Rigs without weights that finish opening when a test allows it."""

from functools import partial
from threading import Event
from typing import Any

from engine.errors import RigError
from engine.machine.progress import ReportProgress
from engine.records import PromptRequest
from engine.requests.admission import Admission
from engine.trace import Header
from explorer.recordings import Library, NoInstruments, recorded_rig
from explorer.rig import CurrentRig, Instruments, Source
from explorer.rig_choice import OpenRig, RigChoice, RigState, loading
from explorer.runs import RunLog, Runner, Runs
from tests.explorer.scripted import ScriptedSource
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.running import until

ASK = PromptRequest("How many books?", method="ddtree", budget=16)


def scripted_rig(name: str, methods: tuple[str, ...] = ()) -> ScriptedInstruments:
    """Return a rig of that name that can run these methods, or all."""
    source = ScriptedSource(name=f"{name} rig", good_at=f"It is good at {name}.")
    source.methods = methods or source.methods
    return ScriptedInstruments(source=source, opened_as=name)


def current_rig(source: Source | None = None, instruments: ScriptedInstruments | None = None) -> CurrentRig:
    """Make the scripted rig or this source the current rig; without instruments it measures nothing."""
    if instruments is None:
        return CurrentRig(NoInstruments(source or ScriptedSource(), "Nothing is measured here."))
    instruments.source = source or instruments.source
    return CurrentRig(instruments)


def start_run(rig: CurrentRig, ask: PromptRequest = ASK, queue: Admission | None = None) -> RunLog:
    """Start a run. Nobody reads it, so it ends after ten seconds."""
    return Runner(rig, Runs(), queue or Admission()).start(ask)


def wait_for_end(run: RunLog) -> RunLog:
    """Wait for the end of the run; return it."""
    until(lambda: run.ended)
    return run


def header_of(run: RunLog) -> Header:
    """Return the run's header, which holds the request and the rig."""
    (header,) = [line for line in run.lines if isinstance(line, Header)]
    return header


def call_function(functions: list[Any], name: str, /, **wanted: Any) -> Any:
    """Call the function of that name as the browser does."""
    return next(function for function in functions if function.__name__ == name)(wanted)


class ScriptedRigs:
    """Open rigs: opening waits for ``may_open``, then raises ``failure`` if it is set."""

    def __init__(self, methods: tuple[str, ...] = ()) -> None:
        self.may_open, self.began = Event(), Event()
        self.methods = methods
        self.failure: Exception | None = None
        self.beside: list[str] = []

    def open(self, name: str, beside: Source, report: ReportProgress) -> Instruments:
        self.beside.append(beside.name)
        report("Reading the weights …", 0.5)
        self.began.set()
        assert self.may_open.wait(20)
        report("Reading the drafters …", None)
        if self.failure:
            raise self.failure
        if name == "nonsense":
            raise RigError("There is no rig 'nonsense'.")
        return scripted_rig(name, self.methods)


class PageWithRigs:
    """Hold a page with a choice of rigs: the rig "first" answers, or, if ``first`` is given, a rig of that name is
    being loaded with ``demo`` as its fallback."""

    def __init__(self, first: str = "", choice_disabled: str = "", methods: tuple[str, ...] = (),
                 open_rig: OpenRig | None = None) -> None:
        self.rigs = ScriptedRigs(methods)
        self.queue = Admission()
        recordings = partial(recorded_rig, Library([]))
        self.rig = (CurrentRig(recordings("Still loading."), loading(first)) if first
                    else CurrentRig(scripted_rig("first")))
        self.choice = RigChoice(self.rig, self.queue, open_rig or self.rigs.open, choice_disabled)
        self.runner = Runner(self.rig, Runs(), self.queue)
        self.choice.load_first("demo", recordings)

    def state(self) -> RigState:
        return self.choice.state({})

    def choose(self, name: str, until_begun: bool = False) -> RigState:
        """Choose a rig; if ``until_begun``, wait until it is being loaded."""
        state = self.choice.choose({"rig": name})
        assert not until_begun or self.rigs.began.wait(20)
        return state

    def run_to_end(self, ask: PromptRequest = ASK) -> RunLog:
        """Run to the end."""
        return wait_for_end(self.runner.start(ask))

    def finish_loading(self) -> RigState:
        """Allow loading, wait until it has succeeded or failed, and return the state."""
        self.rigs.may_open.set()
        until(lambda: not (self.state()["first_load"] or self.state()["loading"]))
        return self.state()
