"""The caveat that stands beside every text of the embedded rig."""

from __future__ import annotations

from engine.methods import METHODS
from engine.trace import Header

TITLE = "demo rig"  # of its runs
MODEL = "A model of 11 million parameters: often wrong."
OWN = "Drafting never changes what it writes."


def model_line(header: Header) -> str:
    """The line about the model beside a run's text; empty for other rigs, and for runs of other engines."""
    if header.rig != TITLE or header.engine:
        return ""
    method = METHODS.get(header.request.method)
    return f"{MODEL} {OWN}" if method and method.lossless else MODEL
