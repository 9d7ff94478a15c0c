"""Each wrong value of a sweep's options is refused in one sentence, before anything is measured."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.decoding.budget_policy import MAX_AUTO_NODES
from engine.errors import RequestError
from engine.lab.settings import Setting, check, prompt_set, settings, shipped_sets
from engine.records import Sampling
from engine.requests.prompts import MAX_FILE_BYTES, Prompt
from tests.engine.lab.scripted import WALKERS, toy_plan

PLAIN = Setting("autoregressive", 0)


@pytest.mark.parametrize(("methods", "budgets", "choice", "expected"), [
    (("autoregressive", "ddtree", "merged", "ddtree"), ("32", 8), {"split": "each", "drafters": ("math", "code")}, {
        "autoregressive": PLAIN, "ddtree 8": Setting("ddtree", 8), "ddtree 32": Setting("ddtree", 32),
        # the split and two drafters apply to merged alone
        "merged 8 each math+code": Setting("merged", 8, "each", ("math", "code")),
        "merged 32 each math+code": Setting("merged", 32, "each", ("math", "code"))}),
    (("ddtree",), (8,), {"sampling": Sampling(0.7, 20, 0.9)}, {
        "autoregressive T 0.7": replace(PLAIN, temperature=0.7, top_k=20, top_p=0.9),
        "ddtree 8 T 0.7": Setting("ddtree", 8, temperature=0.7, top_k=20, top_p=0.9)}),
    (("ddtree",), ("auto", 8), {}, {
        "autoregressive": PLAIN, "ddtree 8": Setting("ddtree", 8),
        "ddtree auto": Setting("ddtree", MAX_AUTO_NODES, pace="auto")}),
    # plain decoding is measured at every concurrency, and always at 1
    (("ddtree",), (8,), {"concurrency": (4, 2, 4)}, {
        "autoregressive": PLAIN, "autoregressive, 2 at once": replace(PLAIN, concurrency=2),
        "ddtree 8, 2 at once": Setting("ddtree", 8, concurrency=2),
        "autoregressive, 4 at once": replace(PLAIN, concurrency=4),
        "ddtree 8, 4 at once": Setting("ddtree", 8, concurrency=4)})])
def test_settings_are_the_baseline_and_every_method_at_every_budget(
        methods: tuple[str, ...], budgets: tuple[int | str, ...], choice: dict[str, Any],
        expected: dict[str, Setting]) -> None:
    chosen = settings(methods, budgets, **choice)
    assert {setting.label: setting for setting in chosen} == expected and chosen == tuple(expected.values())
    assert {setting.baseline for setting in chosen} <= set(chosen)
    assert {setting.baseline.with_one_request for setting in chosen} == {chosen[0]}


@pytest.mark.parametrize(("choice", "sentence"), [
    ({"methods": ("ddtre",)}, "'ddtre'.*autoregressive"), ({"budgets": ()}, "budget"),
    ({"budgets": (16, -4)}, "-4.* 0 to 4096"), ({"budgets": ("many",)}, "'many'"), ({"split": "both"}, "'both'.*total"),
    ({"sampling": Sampling(float("nan"))}, "nan"), ({"sampling": Sampling(1, -2)}, "top-k.* -2"),
    ({"drafters": ("math", "code")}, "math, code"), ({"concurrency": (0,)}, "0; .* 1 to 64"),
    ({"concurrency": (65,)}, "65"), ({"concurrency": ()}, "requests at once")])
def test_invalid_settings_are_refused_by_name(choice: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        settings(**{"methods": ("ddtree",), **choice})


@pytest.mark.parametrize(("changes", "sentence"), [
    ({"settings": (Setting("ddtree", 8, drafters=("math",)),)}, "'math'"), ({"prompts": ()}, "prompt"),
    ({"repeats": 0}, "0; .* 1 to 1000"), ({"max_tokens": 0}, "tokens"), ({"seed": -1}, "-1"),
    ({"prompts": toy_plan().prompts * 1000, "repeats": 1000}, "15000000")])
def test_plans_that_cannot_be_measured_are_refused(changes: dict[str, Any], sentence: str) -> None:
    check(toy_plan(), WALKERS, ())
    with pytest.raises(RequestError, match=sentence):
        check(replace(toy_plan(), **changes), WALKERS, ())


def test_shipped_prompt_sets_are_read_by_name() -> None:
    assert {"math", "code", "explain", "mixed"} <= set(shipped_sets())
    assert all(len(prompt_set(name)) >= 24 for name in ("math", "code", "explain", "mixed"))
    assert len(prompt_set("bench", 3)) == 3
    with pytest.raises(RequestError, match="'novels'.*bench, "):
        prompt_set("novels")
    with pytest.raises(RequestError, match="0 prompts"):
        prompt_set("bench", 0)


def test_a_prompt_file_may_hold_prompts_or_turns(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    rows = [{"prompt": "one\u2028line", "category": "math"}, {"turns": ["first", "second"], "domain": "code"}]
    text = "\r\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    file.write_bytes(b"\xef\xbb\xbf" + text.encode() + b"\n")
    assert prompt_set(str(file)) == (Prompt("one\u2028line", "math"), Prompt("first", "code"))


GOOD = b'{"prompt": "a"}\n'


@pytest.mark.parametrize(("data", "sentence"), [
    (b"\n \n", "no prompt"), (GOOD + b"\n" + b'{"prompt": "a"', "line 3"), (GOOD + b"[" * 100_000, "line 2"),
    *[(line, "line 1") for line in (
        b'{"prompt": "  "}', b'{"turns": {"0": "a"}}', b'["a"]', b"null", b'{"prompt": "\\ud800"}')],
    (b'{"prompt": "a", "category": ["x"]}', 'line 1.*"category"'), (GOOD + b'{"prompt": "\xe9"}', "line 2, byte 28")])
def test_a_bad_prompt_file_is_refused_with_its_line(tmp_path: Path, data: bytes, sentence: str) -> None:
    (tmp_path / "mine.jsonl").write_bytes(data)
    with pytest.raises(RequestError, match=rf"mine\.jsonl.*{sentence}"):
        prompt_set(str(tmp_path / "mine.jsonl"))


def test_a_prompt_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "large.jsonl"
    with file.open("wb") as writing:
        writing.truncate(100 * 2**20)
    assert file.stat().st_size > MAX_FILE_BYTES
    with pytest.raises(RequestError, match="large.jsonl.*32 MB"):
        prompt_set(str(file))
    with pytest.raises(RequestError, match="cannot be read"):
        prompt_set(str(tmp_path))
