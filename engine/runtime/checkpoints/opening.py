"""The circumstances in which a rig is opened: who is told of the progress, and what is in memory already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Tell = Callable[[str, float | None], None]  # the current step, and the share of it that is done, where it is known


def unheard(message: str, share: float | None = None) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Opening:
    """``tell`` is called before every step and at every piece of a download; what it raises ends the opening.
    ``beside`` is the name of a rig that goes on answering meanwhile, ``held_bytes`` what that one holds on a CPU
    (a GPU tells by itself what is free)."""

    tell: Tell = unheard
    beside: str = ""
    held_bytes: int = 0


ALONE = Opening()
