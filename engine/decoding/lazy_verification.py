"""A verification that is made as it is read, for rounds that nobody may look at."""

from __future__ import annotations

from typing import Any, Protocol

from engine.records import Integers, Verification


class VerificationSource(Protocol):
    """What a verification can still be made from."""

    def at(self, node: int) -> int:
        """The choice at one node."""

    def choice(self) -> Integers:
        """The choices at all nodes."""

    def described(self) -> Verification:
        """Everything."""


class LazyVerification(Verification):
    """Makes the choice at a node, the choices, or, with the first look at another field, all of it. A walk asks at the
    nodes that it visits; whoever shows or writes rounds reads them after the round, and whoever measures them reads no
    more."""

    def __init__(self, source: VerificationSource) -> None:
        vars(self).update(source=source, at=source.at)

    def __getattr__(self, name: str) -> Any:
        """Only called for what is not there yet. Two threads may make the same at once; what it is made from is let
        go when all is there."""
        source = vars(self).get("source")
        if source and name == "choice":
            vars(self)["choice"] = source.choice()
        elif source and not name.startswith("__"):
            vars(self).update(vars(source.described()))
            for done in ("source", "at"):
                vars(self).pop(done, None)
        return object.__getattribute__(self, name)
