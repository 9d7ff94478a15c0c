"""A word problem with open slots, and how its slots are filled."""

from __future__ import annotations

import random
from dataclasses import dataclass

from engine.recipes.corpus.items import Item
from engine.recipes.corpus.math_steps import Equation, work_out
from engine.recipes.corpus.math_words import (
    CONTAINERS,
    DAYS,
    FIRST,
    NAMES,
    PRONOUNS,
    SHOPS,
    SO,
    THEN,
    THINGS,
    TOWNS,
    plural,
    with_article,
)

TRIES = 2000
LEAST = 2  # a result of 0 or 1 would break the plurals


@dataclass(frozen=True)
class Template:
    """One kind of word problem.

    ``numbers`` names the drawn numbers with their ranges ("boxes 2-9, each 2-12"). ``given`` derives more
    numbers of the prompt, unseen by the reader; ``steps`` are the shown steps ("held = boxes * each; ..."),
    the last of which is the answer. The texts may use every number, ``{held_eq}`` for a worked step, and the
    word slots of ``draw_words``. ``things`` picks the table the objects are drawn from.
    """

    name: str
    numbers: str
    steps: str
    prompts: tuple[str, ...]
    responses: tuple[str, ...]
    given: str = ""
    things: str = "goods"


def fill(template: Template, generator: random.Random) -> Item:
    """Draw numbers and words for a template and write out its prompt and worked response."""
    numbers, equations = draw_numbers(template, generator)
    slots: dict[str, object] = {**draw_words(template.things, generator), **numbers}
    slots.update({f"{name}_eq": equation.text for name, equation in equations.items()})
    answer = str(list(equations.values())[-1].value)
    prompt = generator.choice(template.prompts).format_map(slots)
    response = generator.choice(template.responses).format_map(slots)
    return Item("math", prompt, f"{response}\nAnswer: {answer}", answer)


def draw_numbers(template: Template, generator: random.Random) -> tuple[dict[str, int], dict[str, Equation]]:
    """Prompt numbers and shown equations, redrawn until every step is easy; raises ValueError if none is."""
    ranges = [_parse_range(part) for part in template.numbers.split(",")]
    for _ in range(TRIES):
        numbers = {name: generator.randint(low, high) for name, low, high in ranges}
        hidden = _run_steps(template.given, numbers)
        if hidden is None:
            continue
        equations = _run_steps(template.steps, numbers)
        if equations is not None:
            return numbers, equations
    raise ValueError(f"no numbers fit the template {template.name}")


def _parse_range(part: str) -> tuple[str, int, int]:
    name, span = part.split()
    low, high = span.split("-")
    return name, int(low), int(high)


def _run_steps(steps: str, numbers: dict[str, int]) -> dict[str, Equation] | None:
    """Work out the steps in order, adding their values to ``numbers``; None when a step is not easy."""
    equations: dict[str, Equation] = {}
    for step in filter(None, (piece.strip() for piece in steps.split(";"))):
        name, _, left, sign, right = step.split()
        equation = work_out(_value(left, numbers), sign, _value(right, numbers))
        if equation is None or equation.value < LEAST:
            return None
        equations[name] = equation
        numbers[name] = equation.value
    return equations


def _value(word: str, numbers: dict[str, int]) -> int:
    return int(word) if word.isdigit() else numbers[word]


def draw_words(things: str, generator: random.Random) -> dict[str, str]:
    """The word slots: people, pronouns, two objects (``a``, ``b``; ``a1`` singular, ``aa`` with article)."""
    (name, pronoun), (other, _) = generator.sample(NAMES, 2)
    first, second = generator.sample(THINGS[things], 2)
    town, far_town = generator.sample(TOWNS, 2)
    early = generator.randrange(len(DAYS) - 1)
    return {
        "name": name, "other": other, **PRONOUNS[pronoun],
        "a": plural(first), "a1": first, "aa": with_article(first), "Aa": with_article(first).capitalize(),
        "b": plural(second), "b1": second, "bb": with_article(second),
        "boxes": generator.choice(CONTAINERS), "shop": generator.choice(SHOPS), "town": town, "far": far_town,
        "day": DAYS[early], "next_day": DAYS[early + 1],
        "first": generator.choice(FIRST), "then": generator.choice(THEN), "so": generator.choice(SO),
    }
