"""What a setting is called on the page."""

from __future__ import annotations

from engine.decoding.budget_policy import FIXED, MOST_AUTO
from engine.decoding.methods import METHODS
from engine.lab.settings import Setting


def line_of(setting: Setting) -> str:
    """The name of the curve that a setting belongs to: everything but the budget."""
    return setting.curve.label


def label_of(setting: Setting) -> str:
    """The name of a setting, as the page shows it: ``merged each, 64 nodes``, ``ddtree, auto, 8 at once``; a method
    that drafts nothing has no nodes."""
    nodes = [_nodes(setting)] if METHODS[setting.method].drafter_count else []
    return ", ".join([line_of(setting), *nodes, *([f"{setting.together} at once"] if setting.together > 1 else [])])


def _nodes(setting: Setting) -> str:
    nodes = f"{setting.budget} nodes"
    if setting.pace == FIXED:
        return nodes
    return setting.pace if setting.budget == MOST_AUTO else f"{setting.pace} up to {nodes}"
