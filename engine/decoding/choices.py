"""What the target's choices need: one uniform number per absolute position, and a verification that is computed when it
is read, for rounds that may never be looked at."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.records import Integers, Verification


def position_draws(seed: int, count: int) -> NDArray[np.float64]:
    """Uniform draws in [0, 1) of positions 0 … count − 1, (count,) float64; those of fewer positions are a prefix."""
    return np.random.Generator(np.random.Philox(seed)).random(count)


def trial_draws(seed: int) -> np.random.Generator:
    """The generator of an acceptance rule's own trials: from the seed too, but independent of the position draws."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(1,))))


class VerificationSource(Protocol):
    """Computes the parts of a verification on demand."""

    def at(self, node: int) -> int:
        """The choice at one node."""

    def choice(self) -> Integers:
        """The choices at all nodes, (n,) int32."""

    def described(self) -> Verification:
        """The whole verification, statistics included."""


class LazyVerification(Verification):
    """Computes the choice at one node, all choices, or, when any other field is first read, everything. A walk reads
    the choices at the nodes it visits; a display or a trace file reads the rest after the round, and a measurement
    never does."""

    def __init__(self, source: VerificationSource) -> None:
        vars(self).update(source=source, at=source.at)

    def __getattr__(self, name: str) -> Any:
        """Called only for fields that are not computed yet. Two threads may compute the same field at once; the source
        is dropped once everything is there."""
        source = vars(self).get("source")
        if source and name == "choice":
            vars(self)["choice"] = source.choice()
        elif source and not name.startswith("__"):
            vars(self).update(vars(source.described()))
            for done in ("source", "at"):
                vars(self).pop(done, None)
        return object.__getattribute__(self, name)
