"""The check for prompts that the demo rig was not trained for: held against prompts whose kind is known."""

import json
from pathlib import Path
from typing import Any

from engine.requests.prompts import familiar

ASSETS = Path("assets")
KINDS = json.loads((ASSETS / "demo" / "rig.json").read_text("utf8"))["familiar"]


def prompts(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ASSETS / "prompts" / f"{name}.jsonl").read_text("utf8").splitlines()]


def test_freshly_worded_prompts_of_its_kinds_are_known() -> None:
    asked = prompts("reworded")
    assert len(asked) >= 60 and {prompt["category"] for prompt in asked} == {"math", "code", "explain"}
    assert [prompt["prompt"] for prompt in asked if not familiar(prompt["prompt"], KINDS)] == []


def test_what_people_ask_besides_is_not() -> None:
    known = [prompt for prompt in prompts("people") if familiar(prompt["prompt"], KINDS)]
    assert {prompt["category"] for prompt in known} == {"math"} and len(known) <= 2  # word problems both of them


def test_a_long_prompt_takes_no_time() -> None:
    assert not familiar("ticket " * 100_000, KINDS)
