"""The page's first rig, and choosing another one while the page runs: it is loaded in the background, takes over when
the queue is empty, and serves everybody.

Until another rig is ready, and where it cannot be loaded, the present rig goes on answering; before the first one,
that is the recordings.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from typing import Any

from engine.errors import CanopyError, RequestError
from engine.requests.rig_names import NAMED, PIN, RIGS_FOLDER, is_address, rig_names, server_address
from explorer.browser_calls import browser_call
from explorer.rig import NO_RIG_ACCESS, AnsweringRig, OpenRig, RigAccess, RigLoad, RigOpener
from explorer.run_queue import RunQueue
from explorer.sources.attached import ServerRetry
from explorer.view import View

GIVING_WAY_SECONDS = 1.0  # that a brief measurement after a run may take to make room
LONGEST_NAME = 500  # characters of what is typed

log = logging.getLogger("canopy")


class RigChoice:
    """The functions about rigs that the browser may call, and the loading of rigs."""

    def __init__(self, rig: AnsweringRig, queue: RunQueue, access: RigAccess = NO_RIG_ACCESS) -> None:
        self._rig = rig
        self.queue = queue
        self._access = access
        self._lock = Lock()
        self._load = rig.coming
        self._begun = False  # with the page's first rig
        self._failure = ""
        self._retry: ServerRetry | None = None

    def functions(self) -> list[Callable[[Any], View]]:
        """What the browser calls by name; each takes one value and gives the state, or {"error": a sentence}."""
        answers = {"rig_state": self.state, "rig_choose": self.choose, "rig_cancel": self.cancel,
                   "rig_retry": self.retry}
        return [browser_call(name, answer) for name, answer in answers.items()]

    def state(self, _: Mapping[str, Any]) -> View:
        """The rig that answers, those that can be chosen, and the one that is being loaded. ``coming`` is the name of
        the first rig until it is loaded or refused. ``changes`` counts how often the rig was changed: a page that has
        seen another number still offers what a former rig could do. ``retry`` is the server that was asked for and is
        asked again, see ``ServerRetry``."""
        source, instruments, load, coming = self._rig.source, self._rig.instruments, self._load, self._rig.coming
        retry = self._retry
        return {
            "rig": source.rig, "hardware": source.hardware, "opened": instruments.rig, "good_at": source.good_at,
            "reason": instruments.reason, "changes": self._rig.changes, "closed": self._access.closed,
            "named": [{"name": name, "note": note_of(name)} for name in rig_names()],
            "coming": coming.name if coming else "", "loading": load and load.view(), "failure": self._failure,
            "retry": retry and retry.view()}

    def choose(self, wanted: Mapping[str, Any]) -> View:
        """Begin to load {"rig": a name, a folder, or TARGET::DRAFTER}; RequestError where that cannot begin now."""
        opener = self._access.opener
        if self._access.closed or opener is None:
            raise RequestError(self._access.closed)
        name = str(wanted.get("rig") or "").strip()
        if not 0 < len(name) <= LONGEST_NAME:
            raise RequestError("Name a rig: one from the list, a folder with a rig.json, or TARGET::DRAFTER, each a "
                               f"folder or a model id, in at most {LONGEST_NAME} characters.")
        name = server_address(name) if is_address(name) else name  # without a password, which nobody else may see
        with self._lock:
            self._refuse(name)
            if not self.queue.alone(lambda: self._begin(name, opener), GIVING_WAY_SECONDS):
                raise RequestError("A run or a measurement is in progress, and loading would distort its figures; "
                                   "choose the rig when it has ended, or stop it.")
        return self.state({})

    def cancel(self, _: Mapping[str, Any]) -> View:
        """Give up what is being loaded, at the next step or piece of the download."""
        if load := self._load:
            load.cancel()
        return self.state({})

    def retry(self, _: Mapping[str, Any]) -> View:
        """Ask the server that did not answer again, now."""
        if retry := self._retry:
            retry.now()
        return self.state({})

    def load_first(self, opener: RigOpener, fallback: str, without: Callable[[str], OpenRig]) -> None:
        """Load the page's first rig; where it cannot be loaded, ``fallback``; where that cannot be loaded either, the
        stand-in that ``without`` makes answers and gives the reason. A second call does nothing."""
        with self._lock:
            begun, self._begun = self._begun, True
        if not begun:
            Thread(target=self._settle, args=(opener, fallback, without), name="first rig",
                   daemon=True).start()

    def _settle(self, opener: RigOpener, fallback: str, without: Callable[[str], OpenRig]) -> None:
        asked, reason, failure = self._rig.coming, "", ""
        for name in dict.fromkeys((asked.name if asked else fallback, fallback)):
            load = asked if asked and name == asked.name else RigLoad(name)
            self._load = self._rig.coming = load
            failure = self._open(load, opener, reason)
            reason = reason or failure
            if failure:
                log.warning("%s", failure)
            if not failure or load.stop.is_set():
                break
        if failure:
            self._rig.take(without(reason))
        opener.collect()
        self._failure = self._rig.note or reason
        if asked and reason and is_address(asked.name) and not asked.stop.is_set():
            self._retry = ServerRetry(asked.name, lambda load: self._tried_again(load, opener))
        self._load = self._rig.coming = None

    def _tried_again(self, load: RigLoad, opener: RigOpener) -> str:
        failure = self._open(load, opener)
        if not failure:
            self._failure, self._retry = "", None
        return failure

    def _refuse(self, name: str) -> None:
        if self._load:
            raise RequestError(f"{self._load.name} is being loaded; cancel that, or wait until it answers.")
        if name == self._rig.instruments.rig and not self._rig.instruments.reason:
            raise RequestError(f"{name} is the rig that answers already.")

    def _begin(self, name: str, opener: RigOpener) -> None:
        if self._retry:
            self._retry.stop()
        self._load, self._failure, self._retry = RigLoad(name), "", None
        Thread(target=self._replace, args=(self._load, opener), name="rig", daemon=True).start()

    def _replace(self, load: RigLoad, opener: RigOpener) -> None:
        failure = self._open(load, opener)
        opener.collect()
        if failure and not load.stop.is_set():
            self._failure = f"{failure} The {self._rig.source.rig} goes on answering."
        self._load = None

    def _open(self, load: RigLoad, opener: RigOpener, reason: str = "") -> str:
        """Load a rig and let it answer; ``reason`` says why it answers instead of another rig. Returns the sentence
        why it cannot be loaded, empty where it was."""
        try:
            self._take(load, opener.open(load.name, self._rig.source, load.tell), reason)
        except CanopyError as error:
            return str(error)
        except Exception as error:
            log.exception("The rig %s could not be loaded.", load.name)
            return (f"{load.name} could not be loaded: an internal error ({type(error).__name__}); the server's log "
                    "has the details.")
        return ""

    def _take(self, load: RigLoad, fresh: OpenRig, reason: str) -> None:
        """Let the fresh rig answer as soon as no run is in progress or waiting, and free what the former one holds."""
        former, note = self._rig.source, f"{reason} The {fresh.source.rig} answers instead." if reason else ""
        while not self.queue.alone(lambda: self._rig.take(fresh, note), seconds=0.25):
            load.tell("Loaded; it answers as soon as the run or measurement in progress has ended.", 1.0)
        former.close()


def note_of(name: str) -> str:
    """What a named rig is, in a few words."""
    if name not in NAMED:
        package = _package_of(name)
        return f"target from the Python package {package}" if package else "comes with Canopy, needs no network"
    pair = NAMED[name]
    target, *drafters = (place.partition(PIN)[0] for place in (pair.target, *pair.drafters))
    return f"{target} with {', '.join(drafters)}, from the hub; formats tested, published weights not run"


def _package_of(name: str) -> str:
    """The Python package that a rig's card takes its target from; empty for none, and for a card that cannot be read,
    which is reported when that rig is chosen."""
    try:
        return str(json.loads((RIGS_FOLDER / name / "rig.json").read_text("utf8"))["package"]["name"])
    except (OSError, ValueError, TypeError, LookupError):
        return ""
