"""The corpus's texts: files of rows and of lists under assets/demo/corpus, read as tuples."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from engine.requests.rig_names import RIGS_FOLDER

FOLDER = RIGS_FOLDER / "demo" / "corpus"
Row = TypeVar("Row")


def rows(name: str, make: Callable[..., Row]) -> tuple[Row, ...]:
    """The rows of a .jsonl file, in its order; lists are read as tuples."""
    return tuple(make(**_fields(line)) for line in _lines(FOLDER / f"{name}.jsonl"))


def lists(name: str) -> Mapping[str, Any]:
    """The lists of a .json file by name, as tuples."""
    return _fields((FOLDER / f"{name}.json").read_text(encoding="utf8"))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf8").strip().split("\n")


def _fields(text: str) -> dict[str, Any]:
    found: dict[str, Any] = _frozen(json.loads(text))
    return found


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return {name: _frozen(each) for name, each in value.items()}
    return value
