"""The lab's records as JSON text, and back into equal records; no pickle."""

from __future__ import annotations

import json
from typing import Any

from engine.lab.settings import AcceptanceCounts, Conditions, Reading, Setting, SweepPlan
from engine.requests.prompts import Prompt
from engine.trace.written_names import written


def encode(record: SweepPlan | Conditions | Reading) -> str:
    """A record as one line of JSON."""
    return json.dumps(written(record), ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def decode_plan(text: str) -> SweepPlan:
    """A plan from its text; ValueError, LookupError or TypeError where it is not one, as for the other records."""
    fields = json.loads(text)
    return SweepPlan(**{
        **fields, "prompts": tuple(_prompt(prompt) for prompt in fields["prompts"]),
        "settings": tuple(_setting(setting) for setting in fields["settings"])})


def _prompt(fields: dict[str, Any]) -> Prompt:
    return Prompt(**{**fields, "turns": tuple(map(tuple, fields.get("turns", ())))})


def _setting(fields: dict[str, Any]) -> Setting:
    own = {name: value for name, value in fields.items() if name != "heads"}
    return Setting(**own, drafters=tuple(fields["heads"]))


def decode_conditions(text: str) -> Conditions:
    """See ``decode_plan``."""
    return Conditions(**json.loads(text))


def decode_reading(text: str) -> Reading:
    """See ``decode_plan``."""
    fields = json.loads(text)
    counts = fields["acceptance"]
    tuples = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Reading(**{**fields, **tuples, "acceptance": AcceptanceCounts(
        tuple(counts["reached"]), *(tuple(map(tuple, counts[name])) for name in ("proposed", "accepted")))})
