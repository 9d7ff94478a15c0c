"""The math domain of the corpus: word problems whose arithmetic is spelled out step by step.

A template is a problem with open slots: names, things and places, and numbers that make every step easy. Each step has
one fixed written form, easy to learn exactly."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from recipes.corpus.items import Item, lists, rows

WORDS = lists("math_words")
NAMES: tuple[tuple[str, str], ...] = (
    *((name, "she") for name in WORDS["she"]), *((name, "he") for name in WORDS["he"]))
PRONOUNS: Mapping[str, Mapping[str, str]] = {
    "she": {"he": "she", "his": "her", "him": "her", "He": "She", "His": "Her"},
    "he": {"he": "he", "his": "his", "him": "him", "He": "He", "His": "His"},
}
THINGS: Mapping[str, tuple[str, ...]] = WORDS["things"]  # singular forms
IRREGULAR: Mapping[str, str] = WORDS["irregular"]  # plurals of those that do not simply take an "s"
CONTAINERS, SHOPS, TOWNS, DAYS = WORDS["containers"], WORDS["shops"], WORDS["towns"], WORDS["days"]
FIRST, THEN, SO = WORDS["first"], WORDS["then"], WORDS["so"]


def plural(singular: str) -> str:
    """Return the plural of a thing of the tables."""
    return IRREGULAR.get(singular, singular + "s")


def with_article(singular: str) -> str:
    """Return the thing with its indefinite article: "an apple", "a pear"."""
    return ("an " if singular[0] in "aeiou" else "a ") + singular


MAX_RESULT = 400  # results stay below this


@dataclass(frozen=True)
class Equation:
    """A worked equation, for example ``47 + 38 = 40 + 30 + 7 + 8 = 70 + 15 = 85``, and its value."""

    text: str
    value: int


def add(left: int, right: int) -> Equation:
    """Return the sum; tens and ones are added apart when both operands have both."""
    total = left + right
    left_ones, right_ones = left % 10, right % 10
    if min(left, right) < 10 or not left_ones or not right_ones:
        return Equation(f"{left} + {right} = {total}", total)
    left_tens, right_tens = left - left_ones, right - right_ones
    parts = f"{left_tens} + {right_tens} + {left_ones} + {right_ones}"
    pair = f"{left_tens + right_tens} + {left_ones + right_ones}"
    return Equation(f"{left} + {right} = {parts} = {pair} = {total}", total)


def subtract(left: int, right: int) -> Equation | None:
    """Return the difference, the tens taken off before the ones; None if it would be negative."""
    if right > left:
        return None
    ones = right % 10
    tens = right - ones
    if not tens or not ones:
        return Equation(f"{left} - {right} = {left - right}", left - right)
    middle = left - tens
    text = f"{left} - {right} = {left} - {tens} - {ones} = {middle} - {ones} = {left - right}"
    return Equation(text, left - right)


def multiply(left: int, right: int) -> Equation | None:
    """Return the product with a one-digit number; above 12 the other is split into tens and ones; else None."""
    small, large = min(left, right), max(left, right)
    if small > 9 or large > 99:
        return None
    product = left * right
    ones = large % 10
    if large <= 12 or not ones:
        return Equation(f"{left} * {right} = {product}", product)
    tens = large - ones
    shares = [f"{small} * {part}" if left == small else f"{part} * {small}" for part in (tens, ones)]
    parts = " + ".join(shares)
    return Equation(f"{left} * {right} = {parts} = {small * tens} + {small * ones} = {product}", product)


def divide(left: int, right: int) -> Equation | None:
    """Return the quotient inside the multiplication tables up to 12; None if it is not exact or outside them."""
    if not 0 < right <= 12 or left % right or left // right > 12:
        return None
    return Equation(f"{left} / {right} = {left // right}", left // right)


def work_out(left: int, sign: str, right: int) -> Equation | None:
    """Return the equation of ``left sign right``, or None if it is not one of the easy ones below ``MAX_RESULT``."""
    equation = {"+": add, "-": subtract, "*": multiply, "/": divide}[sign](left, right)
    return equation if equation is not None and equation.value < MAX_RESULT else None


TRIES = 2000
MIN_RESULT = 2  # a result of 0 or 1 would break the plurals


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
    """Draw prompt numbers and shown equations, redrawn until every step is easy; raises ValueError if none is."""
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
        if equation is None or equation.value < MIN_RESULT:
            return None
        equations[name] = equation
        numbers[name] = equation.value
    return equations


def _value(word: str, numbers: dict[str, int]) -> int:
    return int(word) if word.isdigit() else numbers[word]


def draw_words(things: str, generator: random.Random) -> dict[str, str]:
    """Return the word slots: people, pronouns, two objects (``a``, ``b``; ``a1`` singular, ``aa`` with article)."""
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


TEMPLATES = rows("math_problems", Template)


def make_math(random: random.Random) -> Item:
    """Make one math problem, drawn with the given generator; ``check`` is the final answer as a string."""
    return fill(random.choice(TEMPLATES), random)
