"""The check for prompts outside the demo rig's training data, against prompts of known kinds."""

import json
from pathlib import Path
from typing import Any

from engine.requests.prompts import matches_patterns

ASSETS = Path("assets")
KINDS = json.loads((ASSETS / "demo" / "rig.json").read_text("utf8"))["familiar"]


def prompts(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ASSETS / "prompts" / f"{name}.jsonl").read_text("utf8").splitlines()]


def test_reworded_prompts_of_known_kinds_are_familiar() -> None:
    asked = prompts("reworded")
    assert len(asked) >= 60 and {prompt["category"] for prompt in asked} == {"math", "code", "explain"}
    assert [prompt["prompt"] for prompt in asked if not matches_patterns(prompt["prompt"], KINDS)] == []


def test_other_prompts_are_not_familiar() -> None:
    known = [prompt for prompt in prompts("people") if matches_patterns(prompt["prompt"], KINDS)]
    assert {prompt["category"] for prompt in known} == {"math"} and len(known) <= 2  # both are word problems


def test_a_long_prompt_is_checked_quickly() -> None:
    assert not matches_patterns("ticket " * 100_000, KINDS)
