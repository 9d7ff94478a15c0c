"""Rigs that answer prompts, from a script and for the page: lossless texts, correct headers, and one sentence for every
request that cannot be served."""

import gc
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch

from engine import open_rig
from engine.checkpoints.memory import run_bytes
from engine.commands.check import lossless_points
from engine.commands.program import main
from engine.errors import CancellationError, RequestError, RigError, TraceError
from engine.lab.against_plain import InterleavedTiming, turn_pairs
from engine.lab.settings import SHIPPED
from engine.models.cache import ReusableText, TreeCache
from engine.models.target import TorchTarget
from engine.records import PromptRequest, Request, Sampling
from engine.requests.prompts import read_prompts
from engine.requests.rig_names import DEFAULT_RIG
from engine.serving.cost import QUICK
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.texts.bounded import BoundedTokenizer
from engine.trace import Header, Trace, committed_ids, dump, dumps, load, loads, trace_from_lines
from tests.engine.demo import demo_live, demo_rig
from tests.running import until

MATH = "Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?"
PROMPTS = read_prompts(Path("assets/prompts/check.jsonl"))
FEW, LONG = 24, 40  # tokens
pytestmark = pytest.mark.usefixtures("quick_curves")


def text_ids(live: Rig, prompt: str, method: str = "autoregressive", budget: int = 0, **options: Any) -> list[int]:
    ask = PromptRequest(prompt, method=method, budget=budget, **options)
    return committed_ids(trace_from_lines(live.run(ask)).rounds)


@pytest.mark.parametrize(("number", "budgets", "tokens"), [
    (0, (64,), FEW), (1, (0, 1), FEW // 2), (2, (7,), FEW),
    *(pytest.param(number, (0, 1, 7, 64), LONG, marks=pytest.mark.long) for number in range(4))])
def test_every_lossless_method_equals_autoregressive(number: int, budgets: tuple[int, ...], tokens: int) -> None:
    live, prompt = demo_live(), PROMPTS[number].text
    plain = text_ids(live, prompt, max_tokens=tokens)
    assert len(plain) > 10
    for method, split in lossless_points(live.methods):
        for budget in budgets:
            assert text_ids(live, prompt, method, budget, split=split, max_tokens=tokens) == plain, (method, budget)


def test_an_answer_continues_after_forced_tokens(tmp_path: Path) -> None:
    live, prompt = demo_live(), PROMPTS[0].text
    plain = text_ids(live, prompt, max_tokens=FEW)
    for method, split in lossless_points(live.methods):
        rest = text_ids(live, prompt, method, 12, split=split, max_tokens=FEW - 9, forced=tuple(plain[:9]))
        assert rest == plain[9:], method
    forced = (*plain[:3], plain[8])
    assert text_ids(live, prompt, max_tokens=FEW, forced=forced) != plain[4:]
    ask = PromptRequest(prompt, method="ddtree", budget=8, max_tokens=FEW, forced=forced)
    trace = trace_from_lines(live.run(ask))
    assert trace.header.forced == 4 and trace.header.request.prompt_ids[-4:] == forced
    dump(trace, tmp_path / "run.jsonl")
    assert load(tmp_path / "run.jsonl").header == trace.header


def test_penalties_count_forced_tokens_as_written() -> None:
    live, prompt, sampling = demo_live(), PROMPTS[0].text, Sampling(presence_penalty=2.0, frequency_penalty=2.0)
    penalised = text_ids(live, prompt, max_tokens=LONG, sampling=sampling)
    for method, budget in ("autoregressive", 0), ("ddtree", 12):
        options = {"max_tokens": LONG - 9, "sampling": sampling, "forced": tuple(penalised[:9])}
        assert text_ids(live, prompt, method, budget, **options) == penalised[9:], method


@pytest.mark.parametrize("concurrent", [False, True])
def test_the_next_turn_reuses_only_its_own_conversations_cache(
        concurrent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.target.PREFILL_ROWS", 8)
    live = demo_live(concurrent=concurrent)
    first = PromptRequest(MATH, budget=8, max_tokens=FEW)
    ask = replace(first, prompt="And with 4 boxes?", turns=(("user", MATH), ("assistant", "67")))

    def run(ask: PromptRequest, cache_key: str) -> Trace:
        with live.admission.admitted():
            return trace_from_lines(live.prepare(ask, cache_key=cache_key).lines())
    prompt_tokens = len(run(first, "one").header.request.prompt_ids)
    stranger, same = run(ask, "another"), run(ask, "one")
    assert stranger.end.cached == 0 and prompt_tokens - 8 < same.end.cached <= prompt_tokens
    for entry, other in zip(same.entries, stranger.entries, strict=True):
        assert entry.round.tree.tokens.tolist() == other.round.tree.tokens.tolist()
    assert same.end.prefill_seconds > 0 and loads(dumps(same)).end == same.end


@pytest.mark.parametrize("error", [RuntimeError("can't allocate memory"), torch.OutOfMemoryError()], ids=["cpu", "gpu"])
@pytest.mark.parametrize("concurrent", [False, True])
def test_a_run_ends_normally_if_its_text_cannot_be_kept(
        concurrent: bool, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: ReusableText) -> ReusableText:
        raise error
    monkeypatch.setattr(ReusableText, "copied", fail)
    monkeypatch.setattr("engine.models.target.PREFILL_ROWS", 8)
    live = demo_live(concurrent=concurrent)
    with live.admission.admitted():
        run = live.prepare(PromptRequest(MATH, budget=8, max_tokens=FEW), cache_key="one")
        assert trace_from_lines(run.lines()).end.rounds and run.closed
    with pytest.raises(RequestError):
        run.target.commit(np.zeros(1, np.int64))


def test_a_kept_text_is_not_used_if_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.target.PREFILL_ROWS", 8)
    live, ask = demo_live(), PromptRequest(MATH, budget=8, max_tokens=FEW)

    def cached() -> int:
        return trace_from_lines(live.run(ask, cache_key="one")).end.cached
    assert [cached() > 0 for _ in range(2)] == [False, True]
    with monkeypatch.context() as full:
        full.setattr("engine.serving.reusable_texts.unused_bytes", lambda device: 10)
        assert cached() == 0
    live.memory.reusable_bytes = 100
    live.reusable_texts.clear()
    run = live.prepare(ask, cache_key="one")
    run.open()
    assert run.target.reusable_text() is None, "it is too long to be kept"
    run.close()


@pytest.mark.parametrize("concurrent", [False, True])
def test_nothing_is_kept_of_a_run_that_fails(concurrent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError
    monkeypatch.setattr("engine.models.target.PREFILL_ROWS", 8)
    live, ask = demo_live(concurrent=concurrent), PromptRequest(MATH, budget=8, max_tokens=FEW)
    with monkeypatch.context() as broken, live.admission.admitted(), pytest.raises(ZeroDivisionError):
        broken.setattr(TorchTarget, "verify_batch", fail)
        list(live.prepare(ask, cache_key="unlucky").lines())
    with live.admission.admitted():
        assert trace_from_lines(live.prepare(ask, cache_key="unlucky").lines()).end.cached == 0


def test_measured_and_recorded_runs_read_their_complete_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.target.PREFILL_ROWS", 8)
    live, ask = demo_live(), PromptRequest(MATH, budget=8, max_tokens=FEW)
    assert [trace_from_lines(live.run(ask)).end.cached for _ in range(2)] == [0, 0]
    answers = [live.generate(MATH, budget=8, max_tokens=FEW) for _ in range(2)]
    assert list(answers[0]) and list(answers[1]) and answers[1].trace.end.cached


def test_a_recorded_round_has_the_targets_alternatives_with_their_texts(tmp_path: Path) -> None:
    live = demo_live()
    lines = live.run(PromptRequest(MATH, method="ddtree", budget=8, max_tokens=FEW))
    dump(trace_from_lines(lines), tmp_path / "run.jsonl")
    trace = load(tmp_path / "run.jsonl")
    named = set(trace.header.pieces)
    for entry in trace.entries:
        keep, verified, found = entry.round.acceptance.keep, entry.round.verification, entry.round.alternatives
        assert found is not None and found.tokens.shape == (len(keep), 5)
        np.testing.assert_array_equal(found.tokens[:, 0], verified.choice[keep])
        np.testing.assert_allclose(found.logprobs[:, 0], verified.logprobs[keep], atol=1e-4)
        np.testing.assert_allclose(found.logprobs[:, 0] - found.logprobs[:, 1], verified.gap[keep], atol=1e-4)
        named |= set(entry.pieces)
        assert set(found.tokens.ravel().tolist()) <= named


def test_an_invalid_or_ending_forced_token_is_refused() -> None:
    live = demo_live()
    for token in (10**6, -1, "x", min(live.stop_ids)):
        with pytest.raises(RequestError):
            list(live.generate(MATH, forced=[token]))


@pytest.mark.long
def test_the_default_rig_is_lossless_on_prompts_by_people(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (SHIPPED / "people.jsonl").read_text(encoding="utf8").splitlines()
    (tmp_path / "few.jsonl").write_text("\n".join(lines[::len(lines) // 4][:4]), encoding="utf8")  # of different kinds
    try:
        load_rig(DEFAULT_RIG, "float32")
    except RigError as error:
        if any(reason in str(error) for reason in ("cannot be fetched", "did not come")):
            pytest.skip(str(error))
        raise
    assert main(["check", "--rig", DEFAULT_RIG, "--prompts", str(tmp_path / "few.jsonl"), "--budgets", "7", "32",
                 "--max-tokens", "24", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert result["differences"] == [] and result["prompts"] == 4 and "ddtree" in dict(result["methods"])
    assert result["equal"] == result["texts"] == 4 * 2 * len(result["methods"])


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[list[str], int]]:
    """Provide a function that returns the tokenised prompts and the largest number tokenised at once."""
    prompts: list[str] = []
    inside: list[int] = []
    counts: list[int] = []

    def slow(*given: Any, **named: Any) -> tuple[int, ...]:
        prompts.append(given[1])
        inside.append(1)
        counts.append(len(inside))
        time.sleep(0.02)
        inside.pop()
        return prompt_ids(*given, **named)

    prompt_ids = BoundedTokenizer.prompt_ids
    monkeypatch.setattr(BoundedTokenizer, "prompt_ids", slow)
    return lambda: (prompts, max(counts))


def test_one_prompt_is_tokenised_at_a_time(reading: Callable[[], tuple[list[str], int]]) -> None:
    """Two threads at once would mix up special tokens, which are a switch of the tokenizer."""
    live = demo_live()
    with ThreadPoolExecutor(4) as readers:
        runs = list(readers.map(lambda number: live.prepare(PromptRequest(f"{MATH} {number}")), range(6)))
    assert reading()[1] == 1 and len({run.request.prompt_ids for run in runs}) == 6


def test_a_prompt_outside_the_training_data_gets_a_note(
        reading: Callable[[], tuple[list[str], int]]) -> None:
    live = demo_live(concurrent=True)
    strange = PromptRequest("Wie spät ist es gerade in Kyoto?", budget=4, max_tokens=4)
    prepared = live.prepare(strange)
    assert trace_from_lines(prepared.lines()).header.outside and reading()[0].count(strange.prompt) == 1
    usual = next(iter(live.run(PromptRequest(MATH))))
    assert isinstance(usual, Header) and usual.note == "" and not usual.outside


def test_a_script_reads_rounds_as_they_are_made(tmp_path: Path) -> None:
    rig = open_rig("demo", "float32")
    plain = rig.generate(MATH, method="autoregressive", budget=0)
    assert all(len(round_.acceptance.keep) == 1 for round_ in plain) and plain.text.endswith("Answer: 67")
    usual = next(iter(rig.generate(MATH)))
    assert len(usual.tree) == rig.card.budget + 1, "the default budget is the card's"
    answer = rig.generate(MATH, method="ddtree", budget=64)
    first = next(answer)
    assert answer.token_ids == first.committed.tolist() and plain.text.startswith(answer.text)
    with pytest.raises(TraceError):
        answer.trace  # noqa: B018  # the run has not ended
    rounds = [first, *answer]
    assert answer.text == plain.text and len(answer.token_ids) > 3 * len(rounds), "drafting pays"
    dump(answer.trace, tmp_path / "run.jsonl")
    assert len(load(tmp_path / "run.jsonl").entries) == len(rounds)


def test_closing_an_answer_frees_its_caches_and_the_rig() -> None:
    def caches() -> list[TreeCache]:
        return [one for one in gc.get_objects() if issubclass(type(one), TreeCache)]

    def freed() -> bool:
        gc.collect()
        return all(cache() is None for cache in opened)

    rig, former = demo_live(), caches()
    answer = rig.generate(MATH, method="ddtree", budget=8, max_tokens=200)
    assert len(list(islice(answer, 2))) == 2
    opened = [ref(cache) for cache in caches() if all(cache is not other for other in former)]
    answer.close()
    assert list(answer) == [] and opened
    until(freed)
    assert list(rig.generate("Hi", method="dflash", budget=4, max_tokens=5))


def test_a_trace_names_every_shown_token_once() -> None:
    trace = trace_from_lines(demo_live().run(PromptRequest(MATH, method="joint", budget=16)))
    assert trace.header.drafters == ("math", "code") and trace.header.dtype == "float32"
    named = set(trace.header.pieces)
    for entry in trace.entries:
        assert not named & set(entry.pieces), "a token is named once"
        named |= set(entry.pieces)
        assert set(entry.round.tree.tokens.tolist()) | {entry.round.acceptance.bonus} <= named
    assert dumps(loads(dumps(trace))) == dumps(trace)


def test_options_are_read_in_every_notation() -> None:
    live, few = demo_live(), {"method": "ddtree", "max_tokens": FEW}
    sampled = live.generate(MATH, **few, sampling=Sampling(0.8, 5, 0.9, 3), budget=8)
    list(sampled)
    for options in ({"temperature": 0.8, "top_k": 5, "top_p": 0.9, "seed": 3, "budget": "8"},
                    {"sampling": Sampling("0.8", "5", "0.9", "3"), "budget": 8.0},  # type: ignore[arg-type]
                    {"sampling": Sampling(0.1, 5, 0.9), "temperature": "0.8", "seed": 3, "budget": 8}):
        answer = live.generate(MATH, **few, **options)
        list(answer)
        assert answer.trace.header.request == sampled.trace.header.request and answer.text == sampled.text
    auto = live.generate(MATH, **few, budget="auto", drafters="math", turns=[{"role": "user", "content": "Hi"}])
    list(auto)
    assert auto.trace.header.request.pace == "auto" and auto.trace.header.drafters == ("math",)


@pytest.mark.parametrize(("prompt", "options", "named"), [
    # tests/explorer/test_options.py has the bounds of every option
    (b"Hi", {}, "b'Hi'"), (["Hi"], {}, "['Hi']"), (" \n\t ", {}, "prompt"), (MATH, {"temperature": "warm"}, "'warm'"),
    (MATH, {"sampling": {"temperature": 1}}, "temperature"),
    (MATH, {"sampling": Sampling(None)}, "temperature"),  # type: ignore[arg-type]
    ("word " * 20_000, {}, "1023"), (MATH, {"method": "magic"}, "'magic'"),
    (MATH, {"drafters": ["math", "math2"], "method": "routed"}, "math, math2")])
def test_an_invalid_request_is_refused_and_the_next_is_served(
        prompt: Any, options: dict[str, Any], named: str) -> None:
    live = demo_live()
    with pytest.raises(RequestError) as caught:
        live.generate(prompt, **options)
    assert named in str(caught.value) and "\n" not in str(caught.value)
    assert text_ids(live, MATH, "ddtree", 8, max_tokens=4)


def test_out_of_memory_is_reported_and_the_next_run_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has …\nand more")

    live, ask = demo_live(), PromptRequest("Hi", method="ddtree", budget=8, max_tokens=6)
    with monkeypatch.context() as patch:
        patch.setattr(TorchTarget, "verify_batch", full)
        with pytest.raises(RequestError) as caught:
            trace_from_lines(live.run(ask))
        with pytest.raises(RequestError, match=r"2\.50 GiB.* 8"), live.interleaved(
                [ask]) as (rounds,):
            list(rounds)
        with pytest.raises(RequestError, match="40 tokens"):
            live.curve(40, Sampling(), QUICK)
    assert "2.50 GiB" in str(caught.value) and "\n" not in str(caught.value)
    assert trace_from_lines(live.run(ask)).entries


def test_a_text_ends_at_the_context_limit() -> None:
    live, prompt = demo_live(), "word " * 200
    left = live.target.context_limit - len(live.prompt_ids(prompt))
    trace = trace_from_lines(live.run(PromptRequest(prompt, method="ddtree", budget=16, max_tokens=5000)))
    assert trace.end.reason in ("context", "stop")
    assert len(committed_ids(entry.round for entry in trace.entries)) <= left


def test_interleaved_runs_write_the_same_text_as_alone() -> None:
    live, plain = demo_live(), PromptRequest(MATH, method="autoregressive", budget=0, max_tokens=FEW)
    text = text_ids(live, MATH, max_tokens=FEW)
    for pace in ("fixed", "auto"):
        ask = PromptRequest(MATH, method="ddtree", budget=16, max_tokens=FEW, pace=pace)
        with live.interleaved([ask, plain]) as sources:
            timing = InterleavedTiming(*sources)
            while timing.advance():
                pass
        assert committed_ids(timing.rounds) == committed_ids(timing.plain) == text
        assert sum(pair.tokens for pair in turn_pairs(timing.rounds, timing.plain)) == len(text)
        assert all(round_.seconds["verify"] > 0 for round_ in timing.rounds)
    assert text_ids(live, MATH, max_tokens=FEW) == text, "the rig is free again"


def test_one_thread_cannot_read_two_answers_at_once() -> None:
    live = demo_live()
    first, second = (live.generate(MATH, max_tokens=6) for _ in range(2))
    next(first)
    with pytest.raises(RequestError):
        next(second)
    rounds = 1 + len(list(first))
    assert len(list(live.generate(MATH, max_tokens=6))) == rounds, "the rig is free again"


def test_a_run_with_penalties_reserves_memory_for_its_logits() -> None:
    live = demo_live(concurrent=True)
    request = live.prepare(PromptRequest(MATH, budget=512)).request
    penalised = replace(request, sampling=Sampling(presence_penalty=1))
    logits = (2 * request.budget + 1) * live.target.config.vocab_size
    assert run_bytes(live.target, penalised, 1) - run_bytes(live.target, request, 1) >= 4 * logits


def test_a_run_reserves_memory_for_the_features_of_its_positions() -> None:
    target, request = demo_rig().target, Request(tuple(range(100)), max_tokens=50)
    untapped = copy(target)
    untapped.taps = ()
    features = len(target.taps) * target.config.hidden_size * 4
    assert run_bytes(target, request, 1) - run_bytes(untapped, request, 1) >= 150 * features > 0


@pytest.mark.parametrize("concurrent", [False, True])
def test_the_exclusive_user_may_run_and_measure_while_others_wait(concurrent: bool) -> None:
    live, ask = demo_live(concurrent=concurrent), PromptRequest(MATH, method="ddtree", budget=8, max_tokens=6)
    with ThreadPoolExecutor(1) as other:
        with live.exclusive("for a test"):
            waiting = other.submit(lambda: trace_from_lines(live.run(ask)))
            until(lambda: live.admission.count_entries() == 2)
            mine = trace_from_lines(live.run(ask))
            with live.interleaved([ask]) as (rounds,):
                assert committed_ids(rounds) == committed_ids(mine.rounds)
            assert not waiting.done()
        assert len(waiting.result(60).entries) == len(mine.entries)
    assert live.admission.count_entries() == 0


def test_exclusive_use_waits_until_a_run_has_freed_its_caches() -> None:
    live = demo_live(concurrent=True)
    run = live.prepare(PromptRequest(MATH, method="ddtree", budget=8, max_tokens=100))
    with ThreadPoolExecutor(1) as other:
        with live.admission.enter(share=run.share):
            lines = run.lines()
            assert len(list(islice(lines, 3))) == 3
            measuring = other.submit(lambda: live.curve(40, Sampling(), QUICK) and run.closed)
            until(lambda: live.admission.count_entries() == 2)
            lines.close()
        assert measuring.result(60)


def test_an_interrupted_run_ends_in_the_middle_of_a_pass_and_others_go_on() -> None:
    live, ask = demo_live(concurrent=True), PromptRequest(MATH, method="ddtree", budget=8, max_tokens=60)
    alone = committed_ids(trace_from_lines(live.run(ask)).rounds)
    unwanted = False

    def interrupt() -> None:
        if unwanted:
            raise CancellationError("Nobody wants it.")

    with live.admission.enter(share=0.1):
        lines, beside = live.prepare(ask, interrupt).lines(), live.prepare(ask).lines()
        begun = list(islice(beside, 2))
        assert len(list(islice(lines, 2))) == 2
        unwanted = True
        with pytest.raises(CancellationError):
            list(lines)
        assert committed_ids(trace_from_lines([*begun, *beside]).rounds) == alone
