"""Choosing another rig while the page runs: loaded in the background, taken when nobody runs anything, one for all.

Until then, and where it cannot be loaded, the rig that answers goes on answering.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any

from engine.errors import Cancelled, CanopyError, RequestError
from engine.lab.control import Control
from engine.rig_names import NAMED, PIN, rig_names
from explorer.service import spoken
from explorer.serving import Choosing, Opened, Rigs, Serving
from explorer.turns import Turns
from explorer.view import View

LONGEST_NAME = 500  # characters of what is typed

log = logging.getLogger("canopy")


@dataclass
class Loading:
    """A rig that is being loaded, and how far it is."""

    name: str
    message: str = "Looking at its files …"
    share: float | None = None
    control: Control = field(default_factory=Control)

    def tell(self, message: str, share: float | None = None) -> None:
        """Take note; Cancelled where the person has changed their mind."""
        if self.control.stopped:
            raise Cancelled("The rig was not loaded; somebody cancelled it.")
        self.message, self.share = message, share

    def view(self) -> View:
        """For the browser."""
        return {"name": self.name, "message": self.message, "share": self.share}


class RigChoice:
    """What the browser may ask about rigs."""

    def __init__(self, serving: Serving, turns: Turns, choosing: Choosing) -> None:
        self._serving = serving
        self._turns = turns
        self._rigs, self._closed = choosing.rigs, choosing.closed
        self._lock = Lock()
        self._loading: Loading | None = None
        self._failure = ""

    def functions(self) -> list[Callable[[Any], View]]:
        """What the browser calls by name; each takes one value and gives the state, or {"error": a sentence}."""
        answers = {"rig_state": self.state, "rig_choose": self.choose, "rig_cancel": self.cancel}
        return [spoken(name, answer) for name, answer in answers.items()]

    def state(self, _: Mapping[str, Any]) -> View:
        """The rig that answers, those that could, and the one that is being loaded. ``changes`` counts how often it
        was changed: a page that has seen another number offers what another rig can do."""
        serving, loading = self._serving, self._loading
        return {
            "rig": serving.rig, "hardware": serving.hardware, "opened": serving.bench.rig, "good_at": serving.good_at,
            "reason": serving.bench.reason, "changes": serving.changes, "closed": self._closed,
            "named": [{"name": name, "note": note_of(name)} for name in rig_names()],
            "loading": loading and loading.view(), "failure": self._failure}

    def choose(self, wanted: Mapping[str, Any]) -> View:
        """Begin to load {"rig": a name, a folder, or TARGET::DRAFTER}; RequestError where that cannot begin now."""
        if self._rigs is None:
            raise RequestError(self._closed)
        name = str(wanted.get("rig") or "").strip()
        if not 0 < len(name) <= LONGEST_NAME:
            raise RequestError("Name a rig: one of the list, a folder with a rig.json, or TARGET::DRAFTER, each a "
                               f"folder or a model id, in at most {LONGEST_NAME} characters.")
        with self._lock:
            self._refuse(name)
            if not self._turns.alone(lambda: self._begin(name)):
                raise RequestError("A run or a measurement is in progress, whose figures loading would spoil; choose "
                                   "the rig when it has ended, or stop it.")
        return self.state({})

    def cancel(self, _: Mapping[str, Any]) -> View:
        """Give up what is being loaded, at the next step or piece of the download."""
        loading = self._loading
        if loading:
            loading.control.stop()
            loading.message, loading.share = "Cancelling after the step in hand …", None
        return self.state({})

    def _refuse(self, name: str) -> None:
        if self._loading:
            raise RequestError(f"{self._loading.name} is being loaded; cancel that, or wait until it answers.")
        if name == self._serving.bench.rig and not self._serving.bench.reason:
            raise RequestError(f"{name} is the rig that answers already.")

    def _begin(self, name: str) -> None:
        self._loading, self._failure = Loading(name), ""
        Thread(target=self._load, args=(self._loading, self._rigs), name="rig", daemon=True).start()

    def _load(self, loading: Loading, rigs: Rigs) -> None:
        failure = ""
        try:
            self._change(loading, rigs.open(loading.name, self._serving.opened.source, loading.tell))
        except Cancelled:
            pass
        except CanopyError as error:
            failure = str(error)
        except Exception as error:
            log.exception("The rig %s could not be loaded.", loading.name)
            failure = (f"{loading.name} could not be loaded: an internal error ({type(error).__name__}); the server's "
                       "log has the details.")
        rigs.collect()
        if failure:
            self._failure = f"{failure} The {self._serving.rig} goes on answering."
        self._loading = None

    def _change(self, loading: Loading, fresh: Opened) -> None:
        """Let it answer as soon as nobody runs or waits, and free what the former one holds."""
        former = self._serving.opened.source
        while not self._turns.alone(lambda: self._serving.take(fresh), seconds=0.25):
            loading.tell("Loaded; it answers as soon as the run or measurement in progress has ended.", 1.0)
        former.close()


def note_of(name: str) -> str:
    """What a named rig is, in a few words."""
    if name not in NAMED:
        return "lies here, needs no network"
    pair = NAMED[name]
    target, *drafters = (place.partition(PIN)[0] for place in (pair.target, *pair.drafters))
    return f"{target} with {', '.join(drafters)}, from the hub"
