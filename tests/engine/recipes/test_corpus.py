"""The corpus is the one that the shipped weights were trained on, to the byte, and what it says is true: equations,
functions with their checks, and what they print."""

import contextlib
import hashlib
import io
import random
import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import pytest

from engine.recipes.corpus.code_functions import make_code
from engine.recipes.corpus.code_tasks import MAXIMUM_RESPONSE_CHARACTERS
from engine.recipes.corpus.explanations import (
    CHATS,
    NOTIONS,
    PAIRS,
    REASONS,
    Chat,
    Reason,
    TermPair,
    make_explain,
)
from engine.recipes.corpus.items import Item, is_test
from engine.recipes.corpus.math_problems import TEMPLATES, Template, fill, make_math
from engine.recipes.corpus.mixed_tasks import make_mixed
from engine.recipes.corpus.mixture import MAKERS

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


SEED_COUNT = 800
BLOCK = re.compile(r"```python\n(.*?)\n```\n", re.DOTALL)
EQUATION = re.compile(r"\d+(?: [-+*/=] \d+)+")


def code_of(item: Item) -> str:
    """The one fenced block of the response."""
    blocks: list[str] = BLOCK.findall(item.response)
    assert len(blocks) == 1
    return blocks[0]


def printed_by(item: Item) -> str:
    """What the block prints; the item's own assertions run after it."""
    captured = io.StringIO()
    with contextlib.redirect_stdout(captured):
        exec(f"{code_of(item)}\n{item.check}", {})
    return captured.getvalue().strip("\n")


@pytest.mark.parametrize("maker", [make_code, make_mixed])
def test_functions_pass_their_checks_and_print_what_is_said(maker: Callable[[random.Random], Item]) -> None:
    for seed in range(SEED_COUNT):
        item = maker(random.Random(seed))
        closing = item.response.rsplit("```\n", 1)[1]
        assert item.check.count("assert ") == 3
        assert closing.endswith(f" prints {printed_by(item)}."), item.response
        assert len(item.response) <= MAXIMUM_RESPONSE_CHARACTERS


@pytest.mark.parametrize("maker", [make_code, make_mixed])
def test_prompt_names_the_function_with_its_arguments(maker: Callable[[random.Random], Item]) -> None:
    for seed in range(SEED_COUNT):
        item = maker(random.Random(seed))
        head = re.search(r"def (\w+)\((.*?)\)(?: -> .*)?:\n", code_of(item))
        assert head is not None
        arguments = re.findall(r"(\w+)(?:: (?:\w+(?:\[.*?\]+)?))?(?:, |$)", head.group(2))
        assert f"`{head.group(1)}({', '.join(arguments)})`" in item.prompt
        assert "$" not in item.prompt + item.response


def test_mixed_arithmetic_is_right_and_ends_in_the_printed_answer() -> None:
    for seed in range(SEED_COUNT):
        item = make_mixed(random.Random(seed))
        solution = item.response.split("\n\n```")[0]
        worked, answer = solution.rsplit("\nAnswer: ", 1)
        equations = EQUATION.findall(worked)
        assert equations
        for text in equations:
            sides = {eval(side, {}) for side in text.split(" = ")}
            assert len(sides) == 1, text
        assert equations[-1].endswith(f"= {answer}")
        assert printed_by(item) == answer


DRAWS = 20_000


@cache
def _draws() -> tuple[Item, ...]:
    source = random.Random(20)
    return tuple(make_explain(source) for _ in range(DRAWS))


ANSWERED: tuple[TermPair | Reason | Chat, ...] = (*PAIRS, *REASONS, *CHATS)


def test_every_answer_is_reached() -> None:
    seen = {item.response for item in _draws()}
    for notion in NOTIONS:
        assert {notion.short, notion.plain, notion.how} <= seen, notion.name
    assert {row.answer for row in ANSWERED} <= seen


def test_prompts_are_many_and_in_both_splits() -> None:
    prompts = {item.prompt for item in _draws()}
    assert len(prompts) >= 1500
    held_out = [item for item in _draws() if is_test(item)]
    assert 0.03 < len(held_out) / DRAWS < 0.1


def test_equal_prompts_have_equal_answers() -> None:
    answers: dict[str, str] = {}
    for item in _draws():
        assert answers.setdefault(item.prompt.lower(), item.response) == item.response, item.prompt


def test_text_is_well_formed() -> None:
    for item in _draws():
        assert (item.domain, item.check) == ("explain", "")
        assert len(item.response) <= 600
        for text in (item.prompt, item.response):
            assert text == text.strip() and text
            assert not re.search(r"  |[{}\n]|\ba (?!one\b)[aeio]|\b(\w+) \1\b", text), text
            assert set(text) - set("τμφ") <= set(map(chr, range(32, 127))), text


ITEMS = 1500
# Of what the corpus wrote when its texts still stood in Python. Change one only together with the weights.
SEEN = {
    "math": "4a340679fc032199875068b36f5b29e07f47035331bc855ba4f9acfbd0af1981",
    "code": "0a23e0f5af209af8150782c8797334aaec7dfaaff582ce42fa3b005643114363",
    "mixed": "45de2f288e66b885f02a77b77fa1435c5f014407066159b861625d5fb2da4db8",
    "explain": "5c7a7fdee75b477b4dcfba5378106e4642c296ea39eec6a58f8d3a6e7951042f",
}


@pytest.mark.parametrize("domain", MAKERS)
def test_a_seed_makes_the_items_that_it_made(domain: str) -> None:
    generator, digest = random.Random(f"hash-{domain}"), hashlib.sha256()
    for _ in range(ITEMS):
        item = MAKERS[domain](generator)
        digest.update(repr((item.domain, item.prompt, item.response, item.check)).encode())
    assert digest.hexdigest() == SEEN[domain]
