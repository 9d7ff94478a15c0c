"""The caveat that stands beside every text of the embedded rig."""

from __future__ import annotations

from engine.trace import Header

TITLE = "demo rig"  # of its runs
MODEL = "A model of 11 million parameters: often wrong."


def model_line(header: Header) -> str:
    """The line about the model beside a run's text; empty for other rigs, and for runs of other engines."""
    return MODEL if header.rig == TITLE and not header.engine else ""
