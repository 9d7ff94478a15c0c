"""Servers that lie in what they report: nothing is made as large as they say, and what is shown can be exported."""

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CanopyError, ServerError
from engine.recorder import LONGEST_PIECE
from engine.servers.answer import ServerStep, Token, chain_round, steps_of_report
from engine.servers.client import Client
from engine.servers.kind import MOST_DRAFTED, ServerReport, counts_of
from engine.servers.server import open_server
from engine.trace import UPLOADED, Trace, dumps, gather, loads
from explorer.attached import attach
from tests.engine.servers.scripted_server import (
    CHAT,
    DONE,
    MODELS,
    Unwired,
    answers,
    chunk,
    event,
    says,
    scripted,
    streams,
)
from tests.engine.servers.test_answers import ASK, attached, one, run_of, text_of

ROOT = Path(__file__).parents[3]
MOST_GROWTH_MIB = 64
SIX = [one(letter) for letter in "abcdef"]
LIES: list[Any] = [2**31 - 1, 2**31, 10**400, -1, -10**400, 1e308, float("nan"), float("inf"), True, None, "7", [],
                   [[7]], [2**31 - 1] * 65_536, {"a": 1}, 0.5]
MEASURED = """
import resource
from tests.engine.servers.test_lies import run_with
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
run_with({}, {})
before = peak()
run_with({"per_step_accepted": [5], "per_step_drafted": [2147483647]}, {})
run_with({}, {"num_spec_tokens": 2147483647, "per_step_accepted": [0], "per_step_drafted": [2147483647]})
print(peak() - before)
"""


def run_with(figures: dict[str, Any], trial: dict[str, Any]) -> Trace | str:
    """A run of six chunks at whose end vLLM reports these figures, after a trial with those; or the sentence why there
    is none."""
    def answer(said: dict[str, Any]) -> bytes:
        return b"".join(SIX) + event(choices=[], metrics={"speculative_decoding": said}) + DONE

    client = Unwired({"/v1/models": answers("vllm-0.32.0-models.json"), CHAT: answer(trial)})
    try:
        source = attach(client.address, lambda *_: None, client).source
        client.said = {CHAT: answer(figures)}
        return gather(filter(None, source.run(ASK)))
    except CanopyError as error:
        return str(error)


def test_a_report_takes_no_more_memory_than_its_text() -> None:
    found = subprocess.run([sys.executable, "-c", MEASURED], cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(found.stdout) < MOST_GROWTH_MIB


@pytest.mark.parametrize("name", ["per_step_accepted", "per_step_drafted", "num_spec_tokens", "num_draft_tokens",
                                  "mean_acceptance_length", "acceptance_histogram"])
def test_a_lie_ends_in_a_sentence_or_in_a_run_that_can_be_exported(name: str) -> None:
    sound = {"per_step_accepted": [2, 1], "per_step_drafted": [5, 5], "num_spec_tokens": 5}
    for lie in LIES:
        for wanted in (lie, [lie], [lie, 1]):
            found = run_with({**sound, name: wanted}, {})
            if isinstance(found, Trace):
                assert opened_again(found) and max(len(entry.round.tree) for entry in found.entries) <= 6
            else:
                assert found.endswith(".") and found.isprintable() and len(found) < 300


def opened_again(trace: Trace) -> bool:
    again = loads(gzip.compress(dumps(trace)), "run", UPLOADED)
    return dumps(again) == dumps(trace)


def test_a_round_is_as_large_as_its_tokens_and_what_a_step_may_draft() -> None:
    tokens = [Token(number, "x") for number in range(3)]
    assert len(chain_round(0, 0, tokens, ServerStep(2, 2**40)).tree) == MOST_DRAFTED + 1
    assert len(chain_round(0, 0, tokens, ServerStep(2, 0)).tree) == 2


def test_a_report_of_more_steps_than_tokens_does_not_count() -> None:
    began = time.monotonic()
    assert steps_of_report([0, 1, 1], ServerReport("", (0, 0, 0), (5, 5, 5))) is None
    many = (0,) * 60_000
    assert len(steps_of_report(many + (1,) * 60_000, ServerReport("", many, many)) or []) == 60_000
    assert time.monotonic() - began < 10


def test_text_in_one_chunk_of_any_length_can_be_exported() -> None:
    whole = "word " * LONGEST_PIECE
    with scripted(models=MODELS, chat=streams(chunk("a"), DONE)) as script, \
            attached(script, chunk("One") + chunk(whole) + chunk(".") + DONE) as source:
        trace = run_of(source)
    assert opened_again(trace) and text_of(trace) == f"One{whole}."


@pytest.mark.parametrize("told", [
    {"token": "x" * (LONGEST_PIECE + 1)}, {"token": "\ufffd", "bytes": [65] * (LONGEST_PIECE + 1)}])
def test_a_token_of_more_than_a_thousand_characters_is_refused(told: dict[str, Any]) -> None:
    answer = one("a") + chunk("b", logprobs={"content": [told]}) + DONE
    with scripted(models=MODELS, chat=streams(chunk("a"), DONE)) as script, attached(script, answer) as source, \
            pytest.raises(ServerError, match=r"1,024"):
        run_of(source)


def test_more_tokens_than_were_asked_for_end_the_run() -> None:
    answer = b"".join(one("a") for _ in range(ASK.max_tokens + 1)) + DONE
    with scripted(models=MODELS, chat=streams(chunk("a"), DONE)) as script, attached(script, answer) as source:
        lines: list[Any] = []
        with pytest.raises(ServerError, match="more than the 200 tokens that it was asked for"):
            for line in source.run(ASK):
                lines.append(line)
    assert len([line for line in lines if line is not None]) == ASK.max_tokens, "the header and all rounds"


def test_numbers_that_no_float_holds_count_as_unknown() -> None:
    listed = says('{"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 1%s}]}' % ("0" * 400))
    told = {"token": "b", "logprob": -10**400}
    answer = one("a") + chunk("b", logprobs={"content": [told]}) + event(choices=[], metrics={
        "speculative_decoding": {"mean_acceptance_length": 10**400, "num_spec_steps": 1}}) + DONE
    with scripted(models=listed, chat=streams(chunk("a"), DONE)) as script, attached(script, answer) as source:
        trace = run_of(source)
    assert trace.header.context_limit == 0 and opened_again(trace)
    assert "mean acceptance length ? over 1 steps" in trace.end.said


@pytest.mark.parametrize("name", ["\ud800", "two\nlines", "", "x" * 201, "\u202e"])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    with scripted(models=says(json.dumps({"data": [{"id": name}]}))) as script, \
            pytest.raises(ServerError, match="printable") as refused:
        open_server(Client(script.address))
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("line", ["a{" + "b" * 10**6, 'a{b="' + "\\" * 10**6, "a{" + "} " * 10**6 + "x", "a" * 10**6,
                                  'a{' + 'b="' * 10**6 + "} 1", "a" + " " * 10**6 + "x y"])
def test_a_line_of_counters_takes_time_in_proportion_to_its_length(line: str) -> None:
    began = time.monotonic()
    counts_of(f"{line}\ndrafts 1e308\ndrafts 1e308\ntried 7", {"drafts": "drafts", "accepted": "tried"})
    assert time.monotonic() - began < 10
