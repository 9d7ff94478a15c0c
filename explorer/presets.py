"""The prompts that the page offers, and what of them fits the rig that answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from explorer.bundle import ASSETS
from explorer.lab_bench import Bench

OWN = "demo"  # the rig whose training the shipped prompts and recordings come from
USUAL = "ddtree"  # what stands in for a method that a rig cannot run


def presets(bench: Bench) -> list[dict[str, Any]]:
    """Name, domain, title, prompt, method, budget, temperature of each. A rig of one's own gets prompts that any
    model can be asked; without a rig they are those of the recordings."""
    own = bench.reason or bench.rig == OWN
    name = "presets.json" if own else "presets-any.json"
    read: list[dict[str, Any]] = json.loads((ASSETS / "prompts" / name).read_text("utf8"))
    return read


def fitting(method: str, methods: Sequence[str]) -> str:
    """The method where the rig can run it, else the usual one, else its last."""
    return next((name for name in (method, USUAL) if name in methods), methods[-1])
