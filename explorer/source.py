"""Where rounds come from: to the page, a live engine and a recorded trace are the same."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

from engine.records import PromptRequest
from engine.trace import Line


class Source(Protocol):
    """Something that answers prompts with a header, an entry per round and an end."""

    @property
    def rig(self) -> str:
        """The name of the set of checkpoints, as the page's badge shows it."""

    @property
    def hardware(self) -> str:
        """What it runs on, in words."""

    @property
    def methods(self) -> Sequence[str]:
        """The methods that it can run, in the order in which the page lists them."""

    @property
    def good_at(self) -> str:
        """What prompts it was trained for, in a sentence; empty where that is not known."""

    @property
    def drafters(self) -> Sequence[str]:
        """Its drafters by name, in the order in which the page lists them."""

    def usual_drafters(self, method: str) -> Sequence[str]:
        """The drafters of a method where the ask names none, in order."""

    def share(self, ask: PromptRequest) -> float:
        """The share of the machine's room that a run takes, of all runs at once: 1 where it has to be alone.

        Raises CanopyError where the ask cannot be served.
        """

    def run(self, ask: PromptRequest) -> Generator[Line | None, None, None]:
        """The run's lines as they happen; None where there is none yet, so that whoever waits can leave. Closing the
        iterator ends the run and frees its cache.

        Raises CanopyError, with a sentence for the person, when the ask cannot be served.
        """

    def close(self) -> None:
        """Free what it holds besides its weights, since another source takes its place. No run may be in progress."""
