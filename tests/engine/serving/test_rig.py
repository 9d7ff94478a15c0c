"""The demo rig answering prompts: lossless on a sample, honest headers, one sentence for every bad ask."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.commands.check import lossless_points
from engine.errors import CanopyError
from engine.lab.turns import TurnTaking, turn_pairs
from engine.records import PromptRequest, Sampling
from engine.requests.prompts import SAID, read_prompts
from engine.serving.chat import TokenTexts, prompt_ids
from engine.serving.rig import Rig
from engine.trace import Entry, Header, committed_ids, dumps, gather, loads
from tests.engine.demo import demo_live, demo_rig

MATH = "Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?"
PROMPTS = read_prompts(Path("assets/prompts/check.jsonl"))


def text_ids(live: Rig, ask: PromptRequest) -> list[int]:
    return committed_ids(entry.round for entry in gather(live.run(ask)).entries)


@pytest.mark.parametrize(("place", "budgets"), [
    (0, (1, 64)), (1, (0,)), (2, (7,)),
    *(pytest.param(place, (0, 1, 7, 64), marks=pytest.mark.long) for place in range(4))])
def test_every_lossless_method_equals_autoregressive(place: int, budgets: tuple[int, ...]) -> None:
    live, prompt = demo_live(), PROMPTS[place].text
    wanted = text_ids(live, PromptRequest(prompt, method="autoregressive", budget=0, max_tokens=40))
    assert len(wanted) > 10
    for method, split in lossless_points():
        for budget in budgets:
            assert text_ids(live, PromptRequest(prompt, method=method, budget=budget, max_tokens=40,
                                      split=split)) == wanted, (method, split, budget)


def test_one_prompt_is_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What text a tokenizer takes for special tokens is a switch of the tokenizer itself: two readers would mix."""
    reading: list[int] = []
    most: list[int] = []

    def slow(*given: Any, **named: Any) -> tuple[int, ...]:
        reading.append(1)
        most.append(len(reading))
        time.sleep(0.02)
        reading.pop()
        return prompt_ids(*given, **named)

    monkeypatch.setattr("engine.serving.rig.prompt_ids", slow)
    live = demo_live()
    with ThreadPoolExecutor(4) as readers:
        ids = list(readers.map(lambda number: live.request(PromptRequest(f"{MATH} {number}")).prompt_ids, range(6)))
    assert max(most) == 1 and len(set(ids)) == 6


def test_a_prompt_is_tokenised_once_for_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts: list[str] = []

    def counted(*given: Any, **named: Any) -> tuple[int, ...]:
        prompts.append(given[1])
        return prompt_ids(*given, **named)

    monkeypatch.setattr("engine.serving.rig.prompt_ids", counted)
    live, ask = demo_live(concurrent=True), PromptRequest("Wie spät ist es gerade in Kyoto?", budget=4,
                                                                max_tokens=4)
    live.share(ask)
    assert SAID in gather(live.run(ask)).header.note and prompts == [ask.prompt]


def test_the_walk_methods_share_the_sampled_text_too() -> None:
    live, sampling = demo_live(), Sampling(0.8, 0, 0.95, 11)
    wanted = text_ids(live, PromptRequest(PROMPTS[3].text, method="autoregressive", budget=0, max_tokens=60,
                                          sampling=sampling))
    for method in ("dflash", "ddtree", "routed", "merged", "joint"):
        assert text_ids(live, PromptRequest(PROMPTS[3].text, method=method, budget=24, max_tokens=60,
                                  sampling=sampling)) == wanted


def test_a_word_problem_is_answered_right() -> None:
    text = demo_rig().tokenizer.decode(text_ids(demo_live(), PromptRequest(MATH, method="ddtree", budget=32)))
    assert text.endswith("Answer: 67")


def test_drafting_pays_in_rounds() -> None:
    found = gather(demo_live().run(PromptRequest(MATH, method="ddtree", budget=64)))
    rounds = [entry.round for entry in found.entries]
    assert len(committed_ids(rounds)) / len(rounds) > 3


def test_header_names_every_token_that_is_shown_and_the_file_is_the_run() -> None:
    found = gather(demo_live().run(PromptRequest(MATH, method="joint", budget=16)))
    assert found.header.drafters == ("math", "code") and found.header.dtype == "float32"
    named = set(found.header.pieces)
    for entry in found.entries:
        assert not named & set(entry.pieces), "a token is named once"
        named |= set(entry.pieces)
        made = entry.round
        assert set(made.tree.tokens.tolist()) | {made.acceptance.bonus} <= named
    again = loads(dumps(found))
    assert dumps(again) == dumps(found)


def test_special_token_text_stays_text() -> None:
    tokenizer = demo_rig().tokenizer
    ids = prompt_ids(tokenizer, "<|im_end|><|mask|>")
    assert ids.count(tokenizer.mask_token_id) == 0
    assert ids.count(tokenizer.convert_tokens_to_ids("<|im_end|>")) == 1  # the turn's own
    assert "<|im_end|><|mask|>" in tokenizer.decode(ids)


def test_pieces_are_text_or_bytes() -> None:
    tokenizer = demo_rig().tokenizer
    ids = tokenizer.encode("a 🌳 é", add_special_tokens=False)
    found = TokenTexts(tokenizer).of(ids)
    whole = b"".join(bytes(piece) if isinstance(piece, tuple) else piece.encode() for piece in (
        found[token] for token in ids))
    assert whole.decode() == "a 🌳 é"
    assert any(isinstance(piece, tuple) for piece in found.values())


def test_a_token_is_spelt_once() -> None:
    asked: list[list[int]] = []

    class Counting:
        def decode(self, ids: list[int], **_options: object) -> str:
            asked.append(ids)
            return f"<{ids[0]}>"

    tokenizer: Any = Counting()
    spelling = TokenTexts(tokenizer)
    assert spelling.of([3, 1]) == {1: "<1>", 3: "<3>"}
    assert spelling.of({1, 2}) == {1: "<1>", 2: "<2>"} and asked == [[1], [3], [2]]


@pytest.mark.parametrize(("ask", "said"), [  # what every request is checked for is in decoding/test_loop.py
    (PromptRequest(" \n\t "), "The prompt is empty"),
    (PromptRequest("word " * 20_000), "shorten it to at most 1023"),
    (PromptRequest(MATH, method="magic"), "no method 'magic'"),
    (PromptRequest(MATH, drafters=("math", "math2"), method="routed"), "asked for were math, math2"),
])
def test_a_bad_ask_gets_one_sentence_and_the_next_one_is_served(ask: PromptRequest, said: str) -> None:
    live = demo_live()
    with pytest.raises(CanopyError) as caught:
        gather(live.run(ask))
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert text_ids(live, PromptRequest(MATH, method="ddtree", budget=8, max_tokens=4))


@pytest.mark.parametrize("prompt", ["🌳" * 50, "\x00\x01\x1b[31m", "${7*6} </script>", "שלום עולם", "a" * 900])
def test_odd_prompts_are_answered(prompt: str) -> None:
    lines = list(demo_live().run(PromptRequest(prompt, method="ddtree", budget=8, max_tokens=12)))
    assert isinstance(lines[0], Header) and sum(isinstance(line, Entry) for line in lines) >= 1


def test_a_prompt_outside_the_training_is_told_so() -> None:
    live = demo_live()
    strange = next(iter(live.run(PromptRequest("Qu'est-ce que la tarte flambée, et où la mange-t-on le dimanche ?"))))
    usual = next(iter(live.run(PromptRequest(MATH))))
    assert isinstance(strange, Header) and isinstance(usual, Header)
    assert "lies outside" in strange.note and usual.note == ""


def test_the_context_ends_the_text_cleanly() -> None:
    rig = demo_rig()
    prompt = "word " * 200
    room = rig.target.context_limit - len(prompt_ids(rig.tokenizer, prompt))
    found = gather(demo_live().run(PromptRequest(prompt, method="ddtree", budget=16, max_tokens=5000)))
    assert found.end.reason in ("context", "stop")
    assert len(committed_ids(entry.round for entry in found.entries)) <= room


def test_closing_a_run_frees_its_cache_and_lets_the_next_one_in() -> None:
    live = demo_live()
    lines = live.run(PromptRequest(MATH, method="ddtree", budget=8, max_tokens=100))
    next(lines), next(lines)
    lines.close()
    assert demo_rig().target._cache is None
    assert text_ids(live, PromptRequest(MATH, method="ddtree", budget=8, max_tokens=4))


def test_runs_are_taken_in_turns_and_write_what_they_write_alone() -> None:
    live = demo_live()
    asks = [PromptRequest(MATH, method="ddtree", budget=16, max_tokens=40, pace=pace) for pace in ("fixed", "auto")]
    plain = PromptRequest(MATH, method="autoregressive", budget=0, max_tokens=40)
    wanted = text_ids(live, plain)
    for ask in asks:
        with live.in_turns([ask, plain]) as (rounds, plainly):
            taking = TurnTaking(rounds, plainly)
            while taking.turn():
                pass
        assert committed_ids(taking.rounds) == committed_ids(taking.plain) == wanted
        assert sum(pair.tokens for pair in turn_pairs(taking.rounds, taking.plain)) == len(wanted)
        assert all(made.seconds["verify"] > 0 for made in taking.rounds)
    assert text_ids(live, plain) == wanted, "the rig is free again"
