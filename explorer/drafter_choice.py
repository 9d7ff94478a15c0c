"""The drafters of a run: the rig's own choice for the method, or as many others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from engine.decoding.methods import METHODS
from explorer.source import Source

OWN = "own"  # the rig's own choice, among the values of the list


def names_of(value: Any) -> list[str]:
    """The drafters that a value of the list stands for; none for the rig's own choice, or for a value that is not in
    the list."""
    try:
        names = json.loads(value) if isinstance(value, str) and value != OWN else []
    except ValueError:
        return []
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def choosing_drafters(source: Source, method: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """The choices and the value of the list of drafters for a method: the rig's own choice, unless ``names`` are
    others. Where a method takes no drafter, or all that the rig has, there is nothing to choose."""
    own = tuple(source.usual_drafters(method))
    count = METHODS[method].drafter_count if method in METHODS else len(own)  # an attached server drafts as it does
    others = [found for found in combinations(source.drafters, count) if found != own]
    asked = tuple(map(str, names))  # an uploaded file may name anything
    if len(asked) == count and asked != own and asked not in others and set(asked) <= set(source.drafters):
        others.append(asked)  # in another order
    offered = [(f"the rig's own: {_joined(own)}" if count else "none", OWN),
               *((_joined(found), json.dumps(found)) for found in others if count)]
    return {"choices": offered, "value": json.dumps(asked) if count and asked in others else OWN,
            "interactive": len(offered) > 1}


def _joined(names: Sequence[str]) -> str:
    return " + ".join(names) or "its drafters"
