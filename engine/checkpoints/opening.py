"""The circumstances in which a rig is opened: where progress is reported, and what memory already holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Tell = Callable[[str, float | None], None]  # (the current step, the share of it that is done, if known)


def unheard(message: str, share: float | None = None) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Opening:
    """How a rig is opened. ``tell`` is called before every step and for every piece of a download; an exception that it
    raises ends the opening. ``beside`` is the name of a rig that goes on answering meanwhile, ``held_bytes`` the memory
    that it holds on a CPU (a GPU reports by itself what is free)."""

    tell: Tell = unheard
    beside: str = ""
    held_bytes: int = 0


ALONE = Opening()
