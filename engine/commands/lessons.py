"""Reads the file of the shipped lessons: JSON rows of a name, a title, a note and the fields of an ask, all checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import RequestError
from engine.machine.files import open_file
from engine.records import Ask, Sampling

TEXTS = ("name", "title", "note", "prompt")
NUMBERS: Mapping[str, type | tuple[type, ...]] = {
    "budget": int, "max_tokens": int, "temperature": (int, float), "top_k": int, "top_p": (int, float), "seed": int}
WORDS = ("method", "split")
OF_THE_ASK = ("prompt", "method", "budget", "max_tokens", "split")
OF_THE_SAMPLING = ("temperature", "top_k", "top_p", "seed")
FILE_NAME = re.compile(r"[\w-]{1,100}")


@dataclass(frozen=True)
class LessonPlan:
    """A run to record; ``name`` is the name of its file."""

    name: str
    title: str
    note: str
    ask: Ask


def read_lessons(path: Path) -> list[LessonPlan]:
    """The lessons of a file; RequestError names the row and the field that is wrong."""
    try:
        with open_file(path) as file:
            rows = json.loads(file.read().decode("utf8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RequestError(f"{path.name} is not a JSON file of lessons ({str(error)[:120]}).") from error
    if not isinstance(rows, list) or not rows:
        raise RequestError(f"{path.name} holds {str(rows)[:40]}; it has to be a list of lessons.")
    return [lesson_of(row, f"Lesson {number} of {path.name}") for number, row in enumerate(rows, 1)]


def lesson_of(row: Any, place: str) -> LessonPlan:
    """The lesson of one row; RequestError says what is wrong with it."""
    if not isinstance(row, dict):
        raise RequestError(f"{place} is {str(row)[:40]!r}; it has to be an object.")
    _check_kinds(row, place)
    if not FILE_NAME.fullmatch(row["name"]):
        raise RequestError(f"{place} has the name {row['name'][:60]!r}; it has to be letters, digits, _ and - only.")
    sampling = Sampling(**{name: row[name] for name in OF_THE_SAMPLING if name in row})
    asked = {name: row[name] for name in OF_THE_ASK if name in row}
    return LessonPlan(row["name"], row["title"], row["note"], Ask(
        **asked, sampling=sampling, drafters=tuple(row.get("heads", ()))))


def _check_kinds(row: Mapping[str, Any], place: str) -> None:
    kinds: dict[str, tuple[type | tuple[type, ...], str]] = {
        **{name: (str, "a text") for name in (*TEXTS, *(word for word in WORDS if word in row))},
        **{name: (kind, "a number") for name, kind in NUMBERS.items() if name in row}}
    for name, (kind, said) in kinds.items():
        value = row.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise RequestError(f"{place} has {str(value)[:40]!r} under {name!r}; it has to be {said}.")
    drafters = row.get("heads", [])
    if not isinstance(drafters, list) or not all(isinstance(drafter, str) for drafter in drafters):
        raise RequestError(f"{place} has {str(drafters)[:40]!r} under 'heads'; it has to be a list of names.")
