"""The explain domain: every answer can be asked for, and no prompt or answer is malformed."""

from __future__ import annotations

import random
import re
from functools import cache

from engine.recipes.corpus.explain_records import Chat, Reason, TermPair
from engine.recipes.corpus.explanations import CHATS, NOTIONS, PAIRS, QUESTIONS, REASONS, make_explain
from engine.recipes.corpus.items import Item, is_test

DRAWS = 20_000


@cache
def _draws() -> tuple[Item, ...]:
    source = random.Random(20)
    return tuple(make_explain(source) for _ in range(DRAWS))


def test_tables_are_large_enough() -> None:
    assert len({notion.name for notion in NOTIONS}) == len(NOTIONS) >= 40
    assert len({frozenset((pair.left, pair.right)) for pair in PAIRS}) == len(PAIRS) >= 25
    assert len({reason.clause for reason in REASONS}) == len(REASONS) >= 20
    frames = QUESTIONS["short"] + QUESTIONS["plain"] + QUESTIONS["how"]
    assert len(set(frames)) == len(frames) >= 12


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


def test_answers_are_short_sentences() -> None:
    for notion in NOTIONS:
        for answer in (notion.plain, notion.how):
            assert 25 <= len(answer.split()) <= 60, notion.name
        assert 10 <= len(notion.short.split()) <= 45, notion.short
        assert notion.plain.startswith(notion.short)
    for row in ANSWERED:
        assert 25 <= len(row.answer.split()) <= 60, row.answer
        assert row.answer.endswith((".", "!"))


def test_same_seed_gives_same_items() -> None:
    first = [make_explain(random.Random(seed)) for seed in range(50)]
    assert first == [make_explain(random.Random(seed)) for seed in range(50)]
