"""The corpus is, to the byte, the one that the shipped weights were trained on, and its equations, functions and
printed results are right."""

import contextlib
import hashlib
import io
import random
import re
from collections.abc import Callable

import pytest

from recipes.corpus.code_functions import make_code
from recipes.corpus.code_tasks import MAXIMUM_RESPONSE_CHARACTERS
from recipes.corpus.explanations import CHATS, NOTIONS, PAIRS, REASONS, Chat, Reason, TermPair, make_explain
from recipes.corpus.items import Item, is_test
from recipes.corpus.math_problems import TEMPLATES, Template, fill, make_math
from recipes.corpus.mixed_tasks import make_mixed
from recipes.corpus.mixture import MAKERS

SEEDS = 1000
BLOCK = re.compile(r"```python\n(.*?)\n```\n", re.DOTALL)
EQUATION = re.compile(r"\d+(?: [-+*/] \d+)*(?: = \d+(?: [-+*/] \d+)*)+")


def code_of(item: Item) -> str:
    """Return the response's one fenced block."""
    (block,) = BLOCK.findall(item.response)
    return str(block)


def printed_by(item: Item) -> str:
    """Return what the block prints; the item's own assertions run after it."""
    captured = io.StringIO()
    with contextlib.redirect_stdout(captured):
        exec(f"{code_of(item)}\n{item.check}", {})
    return captured.getvalue().strip("\n")


@pytest.mark.parametrize("maker", [make_math, make_mixed])
def test_every_equation_is_true_and_the_last_one_is_the_answer(maker: Callable[[random.Random], Item]) -> None:
    for seed in range(SEEDS):
        item = maker(random.Random(seed))
        worked, answer = item.response.split("\n\n```")[0].rsplit("\nAnswer: ", 1)
        equations = EQUATION.findall(worked)
        assert equations and sum(text.count("=") for text in equations) == worked.count("="), item
        for text in equations:
            assert len({eval(side, {}) for side in text.split(" = ")}) == 1, text
        assert equations[-1].endswith(f"= {answer}") and len(item.response) <= MAXIMUM_RESPONSE_CHARACTERS
        assert answer == (item.check if item.domain == "math" else printed_by(item))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_every_wording_of_a_template_names_every_number(template: Template) -> None:
    drawn = [part.split()[0] for part in template.numbers.split(",")]
    seen = [fill(template, random.Random(seed)) for seed in range(60)]
    assert len({item.prompt for item in seen}) > 40
    assert all(not re.search(r"[{}]", item.prompt + item.response) for item in seen)
    shown = {step.split()[0] for step in template.given.split(";") if step.strip()} | set(drawn)
    used = [set(re.findall(r"{(\w+)}", prompt)) & shown for prompt in template.prompts]
    assert all(numbers == used[0] for numbers in used), "the wordings give different numbers"


@pytest.mark.parametrize("maker", [make_code, make_mixed])
def test_functions_pass_their_checks_and_match_their_prompts(maker: Callable[[random.Random], Item]) -> None:
    for seed in range(SEEDS):
        item = maker(random.Random(seed))
        assert item.check.count("assert ") == 3 and len(item.response) <= MAXIMUM_RESPONSE_CHARACTERS
        assert item.response.rsplit("```\n", 1)[1].endswith(f" prints {printed_by(item)}."), item.response
        head = re.search(r"def (\w+)\((.*?)\)(?: -> .*)?:\n", code_of(item))
        assert head is not None
        arguments = re.findall(r"(\w+)(?:: (?:\w+(?:\[.*?\]+)?))?(?:, |$)", head.group(2))
        assert f"`{head.group(1)}({', '.join(arguments)})`" in item.prompt
        assert "$" not in item.prompt + item.response


ANSWERED: tuple[TermPair | Reason | Chat, ...] = (*PAIRS, *REASONS, *CHATS)


def test_questions_are_varied_well_formed_and_in_both_splits() -> None:
    source = random.Random(20)
    items = [make_explain(source) for _ in range(20_000)]
    answers = {item.prompt.lower(): item.response for item in items}
    assert len({item.prompt for item in items}) >= 1500 and 0.03 < sum(map(is_test, items)) / len(items) < 0.1
    for notion in NOTIONS:
        assert {notion.short, notion.plain, notion.how} <= set(answers.values()), notion.name
    assert {row.answer for row in ANSWERED} <= set(answers.values())
    for item in items:
        assert answers[item.prompt.lower()] == item.response, "equal prompts have equal answers"
        assert (item.domain, item.check) == ("explain", "") and len(item.response) <= 600
        for text in (item.prompt, item.response):
            assert text == text.strip() and text
            assert not re.search(r"  |[{}\n]|\ba (?!one\b)[aeio]|\b(\w+) \1\b", text), text
            assert set(text) - set("τμφ") <= set(map(chr, range(32, 127))), text


ITEMS = 1500
# Hashes of the corpus that the shipped weights were trained on. Change one only together with the weights.
SEEN = {
    "math": "4a340679fc032199875068b36f5b29e07f47035331bc855ba4f9acfbd0af1981",
    "code": "0a23e0f5af209af8150782c8797334aaec7dfaaff582ce42fa3b005643114363",
    "mixed": "45de2f288e66b885f02a77b77fa1435c5f014407066159b861625d5fb2da4db8",
    "explain": "5c7a7fdee75b477b4dcfba5378106e4642c296ea39eec6a58f8d3a6e7951042f",
}


@pytest.mark.parametrize("domain", MAKERS)
def test_a_seed_gives_the_same_items_as_before(domain: str) -> None:
    generator, digest = random.Random(f"hash-{domain}"), hashlib.sha256()
    for _ in range(ITEMS):
        item = MAKERS[domain](generator)
        digest.update(repr((item.domain, item.prompt, item.response, item.check)).encode())
    assert digest.hexdigest() == SEEN[domain]
