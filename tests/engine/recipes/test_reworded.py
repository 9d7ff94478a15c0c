"""The prompts that a person worded: each can be judged, and none of them is one that a template makes."""

from __future__ import annotations

import random

import pytest

from engine.commands.program import main
from engine.recipes.corpus.mixture import MAKERS
from engine.recipes.evaluate import CHECKS, REWORDED, exact_answer, reworded_items


def test_every_prompt_belongs_to_a_domain_and_can_be_judged() -> None:
    rows = len(REWORDED.read_text(encoding="utf8").splitlines())
    found = {domain: reworded_items(domain) for domain in CHECKS}
    assert sum(map(len, found.values())) == rows >= 60
    assert all(exact_answer(f"Answer: {item.check}", item.check) for item in found["math"])
    for item in found["code"]:
        compile(item.check, "check", "exec")
        assert item.check.startswith("assert ")


@pytest.mark.parametrize("domain", ["math", "code", "explain"])
def test_no_template_makes_them(domain: str) -> None:
    draw = random.Random(7)
    made = {MAKERS[domain](draw).prompt for _ in range(500)}
    assert len(made) > 30 and made.isdisjoint(item.prompt for item in reworded_items(domain))


def test_a_domain_without_such_prompts_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--reworded", "--domains", "mixed"]) != 0
    assert "choose --domains math code explain" in capsys.readouterr().err
