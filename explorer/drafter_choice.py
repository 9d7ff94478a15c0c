"""Which drafters serve a run: the rig's own choice for its method, or as many others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from engine.methods import METHODS
from explorer.source import Source

OWN = "own"  # the rig's own choice, among the values of the list


def names_of(value: Any) -> list[str]:
    """The drafters that a value of the list stands for; none for the rig's own choice, or for what is not in it."""
    try:
        names = json.loads(value) if isinstance(value, str) and value != OWN else []
    except ValueError:
        return []
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def choosing_drafters(source: Source, method: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """What a list of the drafters for a method offers, and what it shows: the rig's own choice unless others are
    ``names``. Where a method takes none, or all that there are, nothing can be chosen."""
    own, count = tuple(source.usual_drafters(method)), METHODS[method].drafter_count
    others = [found for found in combinations(source.drafters, count) if found != own]
    asked = tuple(map(str, names))  # a stranger's file may name anything
    if len(asked) == count and asked != own and asked not in others and set(asked) <= set(source.drafters):
        others.append(asked)  # in another order
    offered = [(f"the rig's own: {_said(own)}" if count else "none drafts", OWN),
               *((_said(found), json.dumps(found)) for found in others if count)]
    return {"choices": offered, "value": json.dumps(asked) if count and asked in others else OWN,
            "interactive": len(offered) > 1}


def _said(names: Sequence[str]) -> str:
    return " + ".join(names) or "its drafters"
