"""What a setting is called on the page."""

from __future__ import annotations

from dataclasses import replace

from engine.budget_policy import FIXED, MOST_AUTO
from engine.lab.settings import Setting
from engine.methods import METHODS


def line_of(setting: Setting) -> str:
    """The curve that a setting belongs to: all that it says besides the budget."""
    return replace(setting, budget=0, pace=FIXED).label


def label_of(setting: Setting) -> str:
    """A setting for people: ``merged each, 64 nodes``, ``ddtree, auto``; what drafts nothing has no nodes."""
    line = line_of(setting)
    return f"{line}, {_nodes(setting)}" if METHODS[setting.method].drafter_count else line


def _nodes(setting: Setting) -> str:
    nodes = f"{setting.budget} nodes"
    if setting.pace == FIXED:
        return nodes
    return setting.pace if setting.budget == MOST_AUTO else f"{setting.pace} up to {nodes}"
