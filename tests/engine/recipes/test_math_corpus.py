"""The math domain of the corpus: every equation it prints is true and every answer is the last one."""

from __future__ import annotations

import random
import re
from fractions import Fraction

import pytest

from engine.recipes.corpus.math_problems import TEMPLATES, make_math
from engine.recipes.corpus.math_steps import work_out
from engine.recipes.corpus.math_template import Template, fill

CHAIN = re.compile(r"\d+(?: [-+*/] \d+)*(?: = \d+(?: [-+*/] \d+)*)+")
SEEDS = 2000


def evaluate(expression: str) -> Fraction:
    """The exact value of a chain of + - * / with the usual precedence, read left to right."""
    total, sign = Fraction(0), 1
    for part in re.split(r" ([-+]) ", expression):
        if part in "+-":
            sign = 1 if part == "+" else -1
            continue
        words = part.split()
        product = Fraction(words[0])
        for operator, number in zip(words[1::2], words[2::2], strict=True):
            product = product * int(number) if operator == "*" else product / int(number)
        total += sign * product
    return total


def test_every_equation_is_true_and_the_answer_is_the_check() -> None:
    for seed in range(SEEDS):
        item = make_math(random.Random(seed))
        body, last = item.response.rsplit("\n", 1)
        chains = CHAIN.findall(body)
        assert chains, item
        assert sum(chain.count("=") for chain in chains) == body.count("="), item
        for chain in chains:
            assert len({evaluate(side) for side in chain.split(" = ")}) == 1, chain
        assert last == f"Answer: {item.check}" and item.check.isdecimal(), item
        assert chains[-1].endswith(f"= {item.check}"), item
        assert item.domain == "math" and len(item.response) <= 700


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_every_wording_of_a_template_fills_and_names_every_number(template: Template) -> None:
    drawn = [part.split()[0] for part in template.numbers.split(",")]
    seen = [fill(template, random.Random(seed)) for seed in range(60)]
    assert len({item.prompt for item in seen}) > 40
    assert all(not re.search(r"[{}]", item.prompt + item.response) for item in seen)
    shown = {step.split()[0] for step in template.given.split(";") if step.strip()} | set(drawn)
    used = [set(re.findall(r"{(\w+)}", prompt)) & shown for prompt in template.prompts]
    assert all(numbers == used[0] for numbers in used), "the wordings give different numbers"


def test_templates_are_many_and_distinctly_named() -> None:
    assert len({template.name for template in TEMPLATES}) == len(TEMPLATES) >= 45


def test_same_operands_are_always_spelled_the_same() -> None:
    spelled: dict[str, str] = {}
    for seed in range(SEEDS):
        for chain in CHAIN.findall(make_math(random.Random(seed)).response):
            assert spelled.setdefault(chain.split(" = ")[0], chain) == chain


@pytest.mark.parametrize(
    ("left", "sign", "right", "text"),
    [
        (47, "+", 38, "47 + 38 = 40 + 30 + 7 + 8 = 70 + 15 = 85"),
        (54, "+", 7, "54 + 7 = 61"),
        (83, "-", 47, "83 - 47 = 83 - 40 - 7 = 43 - 7 = 36"),
        (6, "*", 14, "6 * 14 = 6 * 10 + 6 * 4 = 60 + 24 = 84"),
        (14, "*", 6, "14 * 6 = 10 * 6 + 4 * 6 = 60 + 24 = 84"),
        (54, "/", 6, "54 / 6 = 9"),
    ],
)
def test_written_forms(left: int, sign: str, right: int, text: str) -> None:
    equation = work_out(left, sign, right)
    assert equation is not None and equation.text == text


def test_hard_arithmetic_is_refused() -> None:
    for left, sign, right in ((3, "-", 4), (55, "/", 6), (13, "*", 14), (390, "+", 20)):
        assert work_out(left, sign, right) is None
