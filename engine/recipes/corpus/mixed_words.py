"""Word problems of one or two steps, as tables: story, parameters, and the steps that solve it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.recipes.corpus.data import lists, rows

WORDS = lists("mixed_words")
NAMES, THINGS, BOXES, PLACES = WORDS["names"], WORDS["things"], WORDS["boxes"], WORDS["places"]


@dataclass(frozen=True)
class TaskStep:
    """One operation: its result's name, the operator, both operands, and sentences that state it."""

    result: str
    operator: str
    left: str
    right: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """A story over ``$`` slots (parameters, and N, M, T, B, P for names, thing, container, place).

    ``parameters`` are (name, lowest, highest); ``purpose`` completes "a function that returns ...".
    """

    family: str
    names: tuple[str, ...]
    stories: tuple[str, ...]
    parameters: tuple[tuple[str, int, int], ...]
    steps: tuple[TaskStep, ...]
    purpose: tuple[str, ...]


def problem_of(steps: tuple[Mapping[str, Any], ...], **fields: Any) -> Problem:
    """A row of the table."""
    return Problem(steps=tuple(TaskStep(**step) for step in steps), **fields)


PROBLEMS = rows("mixed_problems", problem_of)
