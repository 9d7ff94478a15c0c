"""The names that fields have in traces, results, model cards and the page's API. They stay when a field gets a better
name in the code, so that older files can still be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

WRITTEN: Mapping[str, str] = MappingProxyType({"drafters": "heads", "drafter": "head"})


def written_name(field: str) -> str:
    """The name under which a field is written."""
    return WRITTEN.get(field, field)


def written(record: Any) -> dict[str, Any]:
    """``dataclasses.asdict`` under the written names, also for the records inside."""
    return asdict(record, dict_factory=_renamed)


def _renamed(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return {written_name(name): value for name, value in fields}
