"""Seed prompts: tasks combined with their subjects, from the lists in ``seeds/``, one item per line.

A draw is a function of its random generator alone. A task may name other lists in braces ({topic}, {country} …);
``{other}`` is a second item of the same list, ``{a}``, ``{b}`` and ``{c}`` are numbers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

FOLDER = Path(__file__).with_name("seeds")
# How often each kind is drawn. Code has a share, so that there is enough for a drafter of its own.
KINDS: Mapping[str, float] = MappingProxyType({
    "tasks": 0.30, "code_tasks": 0.18, "snippets": 0.03, "text_tasks": 0.14, "letter_tasks": 0.06, "greetings": 0.03,
    "questions": 0.12, "sums": 0.06, "list_tasks": 0.08})
FILLED_FROM: Mapping[str, str] = MappingProxyType({
    "topic": "topics", "text": "texts", "letter": "letters", "code": "code", "country": "countries",
    "person": "persons", "many": "many", "why": "why", "how": "how", "name": "names", "list": "lists"})
NUMBERS: Mapping[str, tuple[int, int]] = MappingProxyType({"a": (2, 60), "b": (61, 250), "c": (2, 12)})
CODE = ("code_tasks", "snippets")


@cache
def lines(name: str) -> tuple[str, ...]:
    """The items of a list; a line break inside an item is written as in Python."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf8")
    return tuple(line.replace("\\n", "\n") for line in text.splitlines())


def seed_prompt(draw: random.Random, kinds: tuple[str, ...] = tuple(KINDS)) -> str:
    """A prompt of one of these kinds."""
    kind = draw.choices(kinds, [KINDS[each] for each in kinds])[0]
    return filled(draw.choice(lines(kind)), draw)


def filled(task: str, draw: random.Random) -> str:
    """The task with an item in each of its braces."""
    named = re.findall(r"{(\w+)}", task)
    values = {field: str(draw.randint(*NUMBERS[field])) for field in named if field in NUMBERS}
    for field in named:
        if field in FILLED_FROM:
            one, other = draw.sample(lines(FILLED_FROM[field]), 2)
            values |= {field: one, "other": other}
    text = re.sub(r"{(\w+)}", lambda found: values.get(found[1], found[0]), task)
    return text[0].upper() + text[1:] if draw.random() < 0.9 else text


def follow_up(draw: random.Random) -> str:
    """A follow-up turn that fits any answer."""
    return draw.choice(lines("follow_ups"))
