"""Live runs: in turn, streamed as stage values at a rate that a browser follows, remembered for export and links."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Generator, Iterator
from contextlib import closing
from threading import Lock
from time import perf_counter
from uuid import uuid4

from engine.errors import CanopyError, RequestError
from engine.records import Ask
from engine.trace import End, Entry, Header, Line, Trace
from explorer.source import Source
from explorer.turns import Place, Turns
from explorer.view import View, add_line, blank_view

MOST_REMEMBERED = 48  # runs; the oldest is forgotten first
SECONDS_BETWEEN_VIEWS = 1 / 30  # a round that is held back waits for the next one, so this has to be short

log = logging.getLogger("canopy")


class Runs:
    """The latest runs by their ids, which nobody can guess: whoever has a run's link may see it."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._kept: OrderedDict[str, list[Line]] = OrderedDict()
        self._lock = Lock()

    def begin(self, run: str) -> list[Line]:
        """An empty list to which the run's lines are to be added as they happen."""
        with self._lock:
            lines = self._kept[run] = []
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return lines

    def trace(self, run: str) -> Trace | None:
        """The run as a trace, closed where it stopped; None for an unknown id or a run without a round."""
        with self._lock:
            lines = list(self._kept.get(run, ()))
        entries = tuple(line for line in lines if isinstance(line, Entry))
        if not entries or not isinstance(lines[0], Header):
            return None
        end = lines[-1] if isinstance(lines[-1], End) else End("stopped", len(entries), entries[-1].elapsed_seconds)
        return Trace(lines[0], entries, end)


class Stream:
    """Runs asks on a source, one at a time, and says what the stage is to show."""

    def __init__(self, source: Source, runs: Runs, turns: Turns) -> None:
        self._source = source
        self._runs = runs
        self._turns = turns

    def watch(self, ask: Ask) -> Iterator[View]:
        """Stage values of a new run, each with its latest rounds, the last with its end or its error.

        Closing it ends the run.
        """
        run = uuid4().hex[:12]
        with self._turns.place() as place:
            yield from _wait(run, place)
            yield blank_view(run, "running", "Reading the prompt …")
            yield from self._run(run, ask)

    def _run(self, run: str, ask: Ask) -> Iterator[View]:
        view, shown, window = blank_view(run), 0.0, _Window()
        lines = self._runs.begin(run)
        try:
            with closing(self._lines(ask)) as happening:
                for line in happening:
                    lines.append(line)
                    view = add_line(view, line)
                    if perf_counter() - shown >= SECONDS_BETWEEN_VIEWS and not isinstance(line, End):
                        yield window.of(view)
                        shown = perf_counter()
        except CanopyError as error:
            view = {**view, "state": "error", "message": str(error)}
        except Exception as error:
            log.exception("The run %s failed.", run)
            view = {**view, "state": "error", "message": (
                f"The run ended with an internal error ({type(error).__name__}); the rounds so far are kept, "
                f"and the server's log has the details. Other runs still work.")}
        if view["state"] == "empty":
            view = {**view, "state": "error", "message": "The run gave nothing at all; try another prompt."}
        yield window.of(view)

    def _lines(self, ask: Ask) -> Generator[Line, None, None]:
        yield from self._source.run(ask)


class _Window:
    """Cuts a growing run to what is new, so that an update costs the same at the end of a long text as at its
    beginning. The rounds of the update before are sent again: browsers may skip one when they are busy."""

    def __init__(self) -> None:
        self._before = self._sent = 0

    def of(self, view: View) -> View:
        """The view with its latest rounds alone; ``from`` is the index of the first of them."""
        first = self._before
        self._before, self._sent = self._sent, len(view["rounds"])
        return {**view, "from": first, "rounds": view["rounds"][first:]}


def _wait(run: str, place: Place) -> Iterator[View]:
    said = 0
    while ahead := place.ahead():
        if ahead != said:
            runs = "One run is" if ahead == 1 else f"{ahead} runs are"
            yield blank_view(run, "queued", f"{runs} ahead of yours; it starts by itself.")
            said = ahead


def known_trace(run: str, runs: Runs) -> Trace:
    """The remembered run of that id; RequestError where it is gone."""
    trace = runs.trace(run)
    if trace is None:
        raise RequestError(f"There is no run {run[:40]!r} any more; the server keeps the latest {MOST_REMEMBERED}.")
    return trace
