"""The caveat that stands beside every text of the rigs that ship."""

from __future__ import annotations

from engine.trace import Header

TITLE = "demo rig"  # of its runs
MODEL = "A model of 11 million parameters: often wrong."
LIMITS = {TITLE: MODEL, "SmolLM2-135M-Instruct": "A model of 135 million parameters: often wrong."}


def model_line(header: Header) -> str:
    """The line about the model beside a run's text; empty for other rigs, and for runs of other engines."""
    return "" if header.engine else LIMITS.get(header.rig, "")
