"""Rigs that open when a test says so, and none of which has weights."""

from threading import Event

from engine.errors import RigError
from explorer.recordings import NoInstruments
from explorer.rig import AnsweringRig, Instruments, Source, Tell
from tests.explorer.scripted import ScriptedSource
from tests.explorer.scripted_instruments import ScriptedInstruments


def scripted_rig(name: str, methods: tuple[str, ...] = ()) -> ScriptedInstruments:
    """A rig of that name, able to run these methods, or all."""
    source = ScriptedSource(rig=f"{name} rig", good_at=f"It is good at {name}.")
    if methods:
        source.methods = methods
    return ScriptedInstruments(source=source, rig=name)


def answering(source: Source | None = None, instruments: ScriptedInstruments | None = None) -> AnsweringRig:
    """The scripted rig, or this source, answering; without instruments nothing can be measured with it."""
    if instruments is None:
        return AnsweringRig(NoInstruments(source or ScriptedSource(), "Nothing is measured here."))
    instruments.source = source or instruments.source
    return AnsweringRig(instruments)


class ScriptedRigs:
    """See ``explorer.rig.RigOpener``: ``go`` lets the one that is being opened be there, ``failure``
    refuses it."""

    def __init__(self, methods: tuple[str, ...] = ()) -> None:
        self.go, self.told = Event(), Event()
        self.methods = methods
        self.failure: Exception | None = None
        self.beside: list[str] = []
        self.collected = 0

    def open(self, name: str, beside: Source, tell: Tell) -> Instruments:
        self.beside.append(beside.rig)
        tell("Reading the weights …", 0.5)
        self.told.set()
        assert self.go.wait(20)
        tell("Reading the drafters …", None)
        if self.failure:
            raise self.failure
        if name == "nonsense":
            raise RigError("There is no rig 'nonsense'.")
        return scripted_rig(name, self.methods)

    def collect(self) -> None:
        self.collected += 1
