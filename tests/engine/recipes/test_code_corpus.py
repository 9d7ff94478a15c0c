"""The code and mixed domains: every function runs, its checks hold, and what the text states is true."""

from __future__ import annotations

import contextlib
import io
import random
import re
from collections import Counter
from collections.abc import Callable

import pytest

from engine.recipes.corpus.code_frame import MAXIMUM_RESPONSE_CHARACTERS
from engine.recipes.corpus.code_functions import draw_task, make_code
from engine.recipes.corpus.items import Item
from engine.recipes.corpus.mixed_tasks import equation, make_mixed
from engine.recipes.corpus.mixed_words import PROBLEMS

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


def test_there_are_many_families_none_of_which_rules_and_prompts_seldom_repeat() -> None:
    families = Counter(draw_task(random.Random(seed)).family for seed in range(4 * SEED_COUNT))
    assert len(families) >= 100
    assert families.most_common(1)[0][1] < SEED_COUNT // 4
    items = [make_code(random.Random(seed)) for seed in range(SEED_COUNT)]
    assert len({item.prompt for item in items}) > 0.98 * SEED_COUNT


def test_same_seed_gives_the_same_item() -> None:
    assert make_code(random.Random(7)) == make_code(random.Random(7))
    assert make_mixed(random.Random(7)) == make_mixed(random.Random(7))


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


def test_equations_are_spelled_beyond_the_tables_only() -> None:
    assert equation(6, "*", 14) == "6 * 14 = 6 * 10 + 6 * 4 = 60 + 24 = 84"
    assert equation(14, "*", 6) == "14 * 6 = 10 * 6 + 4 * 6 = 60 + 24 = 84"
    assert equation(6, "*", 12) == "6 * 12 = 72"
    assert equation(3, "*", 20) == "3 * 20 = 60"
    assert equation(54, "/", 6) == "54 / 6 = 9"


def test_mixed_has_many_families_which_all_occur() -> None:
    assert len({problem.family for problem in PROBLEMS}) >= 15
    text = "".join(make_mixed(random.Random(seed)).response for seed in range(SEED_COUNT))
    names = set(re.findall(r"def (\w+)", text))
    assert all(names & set(problem.names) for problem in PROBLEMS)
