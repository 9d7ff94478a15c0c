"""A corpus item: one prompt with its worked response, and the means to check an answer; and the corpus's texts, files
of rows and of lists under assets/demo/corpus, read as tuples."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.requests.rig_names import RIGS_FOLDER

TEST_SHARE = 16  # one prompt in sixteen belongs to the test split


@dataclass(frozen=True)
class Item:
    """One conversation turn of the corpus.

    ``check`` says how a generated response is judged: for ``math`` the exact final answer (the text after
    ``Answer: ``), for ``code`` Python assertions to run after the function, for ``mixed`` assertions too,
    and the empty string if only the text itself can be read (``explain``).
    """

    domain: str
    prompt: str
    response: str
    check: str = ""


ItemMaker = Callable[[random.Random], Item]


def is_test(item: Item) -> bool:
    """Return whether the item belongs to the test split: decided by its prompt alone, so that no prompt is in both."""
    digest = hashlib.sha256(item.prompt.encode("utf8")).digest()
    return digest[0] % TEST_SHARE == 0


FOLDER = RIGS_FOLDER / "demo" / "corpus"
Row = TypeVar("Row")


def rows(name: str, make: Callable[..., Row]) -> tuple[Row, ...]:
    """Return the rows of a .jsonl file, in its order; lists are read as tuples."""
    return tuple(make(**_fields(line)) for line in _lines(FOLDER / f"{name}.jsonl"))


def lists(name: str) -> Mapping[str, Any]:
    """Return the lists of a .json file by name, as tuples."""
    return _fields((FOLDER / f"{name}.json").read_text(encoding="utf8"))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf8").strip().split("\n")


def _fields(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = _frozen(json.loads(text))
    return fields


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return {name: _frozen(part) for name, part in value.items()}
    return value
