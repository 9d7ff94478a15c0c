"""A source without a model: it answers with the recording that was made of the same question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.errors import RequestError
from engine.methods import METHODS
from engine.records import Ask
from engine.trace import Line
from explorer.lessons import Lesson, Library


class Recordings:
    """Serves recorded runs through the ``Source`` protocol. ``reason`` says why there is no model behind it."""

    def __init__(self, library: Library, reason: str) -> None:
        self._library = library
        self.reason = reason

    @property
    def rig(self) -> str:
        """No rig runs here."""
        return "recordings"

    @property
    def hardware(self) -> str:
        """Nothing is computed."""
        return "no model loaded"

    @property
    def methods(self) -> Sequence[str]:
        """All of them, so that the page looks the same; only recorded questions are answered."""
        return tuple(METHODS)

    @property
    def good_at(self) -> str:
        """Nothing is answered but what was recorded."""
        return ""

    @property
    def heads(self) -> Sequence[str]:
        """None: what was recorded has its own."""
        return ()

    def usual_heads(self, method: str) -> Sequence[str]:
        """See ``heads``."""
        return ()

    def run(self, ask: Ask) -> Iterator[Line]:
        """The lines of the recording of the same prompt and method, the one nearest in budget where several are."""
        fitting = [lesson for lesson in self._library.lessons.values() if _answers(lesson, ask)]
        if not fitting:
            raise RequestError(
                f"{self.reason} Only recorded runs can be shown: pick one under Recordings, "
                f"or run a prompt that was recorded with the method {ask.method}.")
        nearest = min(fitting, key=lambda lesson: abs(lesson.trace.header.request.budget - ask.budget)).trace
        yield nearest.header
        yield from nearest.entries
        yield nearest.end

    def close(self) -> None:
        """See ``Source``: nothing is held."""


def _answers(lesson: Lesson, ask: Ask) -> bool:
    header = lesson.trace.header
    asked = (header.turns, header.prompt.strip(), header.request.method)
    return asked == (ask.turns, ask.prompt.strip(), ask.method)
