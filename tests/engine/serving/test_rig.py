"""The demo rig answering prompts, in a script as for the page: lossless on a sample, honest headers, one sentence for
every bad ask."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from engine import open_rig
from engine.commands.check import lossless_points
from engine.errors import CanopyError, TraceError
from engine.lab.against_plain import TurnTaking, turn_pairs
from engine.records import PromptRequest, Sampling
from engine.requests.prompts import SAID, read_prompts
from engine.serving.chat import prompt_ids
from engine.serving.rig import Rig
from engine.trace import Entry, Header, committed_ids, dump, dumps, gather, load, loads
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


def test_a_script_reads_rounds_as_they_are_made_and_the_text_is_the_targets(tmp_path: Path) -> None:
    rig = open_rig("demo", "float32")
    plain = rig.generate(MATH, method="autoregressive", budget=0)
    assert all(len(made.acceptance.keep) == 1 for made in plain) and plain.text.endswith("Answer: 67")
    answer = rig.generate(MATH, method="ddtree", budget=64)
    first = next(answer)
    assert answer.token_ids == first.committed.tolist() and plain.text.startswith(answer.text)
    with pytest.raises(TraceError):
        answer.trace  # noqa: B018  # it has not ended
    rounds = [first, *answer]
    assert answer.text == plain.text and len(answer.token_ids) > 3 * len(rounds), "drafting pays"
    dump(answer.trace, tmp_path / "run.jsonl")
    assert len(load(tmp_path / "run.jsonl").entries) == len(rounds)


def test_an_answer_that_is_closed_frees_its_caches_and_the_rig_for_the_next() -> None:
    rig = demo_live()
    answer = rig.generate(MATH, method="ddtree", budget=8, max_tokens=200)
    assert len(list(islice(answer, 2))) == 2
    answer.close()
    assert list(answer) == [] and rig.target._cache is None
    assert list(rig.generate("Hi", method="dflash", budget=4, max_tokens=5))


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
