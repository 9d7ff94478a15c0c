"""Answers of servers as rounds. vLLM's answers are recorded, by vLLM 0.32.0 on the demo target; those of
SGLang and llama.cpp are written by hand from their documents and sources."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine.decoding.methods import SERVED
from engine.errors import CanopyError, RequestError, ServerError
from engine.recorder import MAX_PIECE_LENGTH, UNKNOWN_TOKEN
from engine.records import PromptRequest, Sampling
from engine.servers.answer import ServerReport
from engine.servers.client import Client
from engine.servers.server import MODELS, open_server
from engine.servers.steps import steps_of_report
from engine.trace import Entry, Header, Line, Trace, committed_ids, dumps, known_tau, loads, tau, trace_from_lines
from explorer.attached import AttachedServer, attach
from tests.engine.servers.scripted_server import (
    CHAT,
    DONE,
    answers,
    chunk,
    event,
    models,
    offline_client,
    one,
    says,
    scripted,
    streams,
    vllm,
)

DFLASH = [12, 12, 16, 9, 11, 2, 16, 1]  # tokens by round; vLLM reports 3 for the last, counting a stop token
TEXT = "The hall has 8 * 10 = 80 chairs."
ASK = PromptRequest("How many?", method=SERVED, budget=64, max_tokens=200, sampling=Sampling(0.5, 20, 0.9, 7),
          turns=(("system", "Be brief."),))
REAL: dict[str, Any] = {MODELS: answers("models.json"), "/version": answers("version.json")}  # vLLM's replies


def attached(trial: bytes, answer: bytes | None = None, owner: str = "somebody", **paths: Any) -> AttachedServer:
    """Return a server whose answer to the trial request is ``trial``, and then ``answer`` if given."""
    replies = {MODELS: models(owner).encode(), CHAT: trial, **paths}
    source = attach("http://127.0.0.1:9", lambda *_: None, offline_client(replies)).source
    assert isinstance(source, AttachedServer)
    replies[CHAT] = trial if answer is None else answer
    return source


def lines_of(source: AttachedServer) -> list[Line]:
    return [line for line in source.prepare(ASK).lines() if line is not None]


def lengths_of(trace: Trace) -> list[int]:
    return [len(round_.acceptance.keep) for round_ in trace.rounds]


def text_of(trace: Trace) -> str:
    named = {token: piece for entry in trace.entries for token, piece in entry.pieces.items()}
    return "".join(str(named[token]) for token in committed_ids(trace.rounds))


def is_read_back(trace: Trace) -> bool:
    return dumps(loads(dumps(trace), "run")) == dumps(trace)


def test_vllms_steps_become_rounds_with_its_own_tokens() -> None:
    with scripted(**vllm()) as script:
        source = attach(script.address, lambda *_: None).source
        script.replies[CHAT] = streams(answers("dflash.txt"))
        lines = list(source.prepare(ASK).lines())
        asked = script.asked[-1][2]
        script.replies[CHAT] = says(answers("refused.json"), status=400)
        with pytest.raises(ServerError, match=r"400.*temperature must be non-negative"):
            list(source.prepare(ASK).lines())
    assert sum(isinstance(line, Header) for line in lines) == 1, "chunks equal steps, so there is one header"
    trace = trace_from_lines(lines)
    rounds, header = trace.rounds, trace.header
    assert lengths_of(trace) == DFLASH and {len(round_.tree) for round_ in rounds} == {16} and not header.chunked
    assert text_of(trace).startswith(TEXT) and text_of(trace).endswith("Answer: 13")
    assert rounds[0].start == len(header.request.prompt_ids) == 46
    assert [round_.tree.tokens[0] for round_ in rounds[1:]] == [round_.acceptance.bonus for round_ in rounds[:-1]]
    assert rounds[0].verification.logprobs[0] == np.float32(-0.0038963842671364546)
    assert rounds[-1].tree.tokens[1] == rounds[-1].acceptance.bonus == 2, "the stop token was drafted"
    assert np.isnan(rounds[0].verification.logprobs[12:]).all() and set(rounds[0].tree.tokens[12:]) == {UNKNOWN_TOKEN}
    assert all(figure in trace.end.note for figure in ("73", "120", "8", "10.1"))
    assert (header.engine, header.budget, header.context_limit, header.rig) == (
        "vLLM 0.32.0", 15, 512, f"demo at {script.address}") and is_read_back(trace)
    assert asked["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}]
    assert {name: asked[name] for name in ("temperature", "top_k", "top_p", "seed", "max_tokens", "model")} == {
        "temperature": 0.5, "top_k": 20, "top_p": 0.9, "seed": 7, "max_tokens": 200, "model": "demo"}


def test_steps_missing_in_vllms_report_are_filled_from_its_chunks() -> None:
    """N-gram decoding drafts in few steps, and the report lists only those four."""
    lines = lines_of(attached(answers("ngram-trial.txt"), answers("ngram.txt"), **REAL))
    assert sum(isinstance(line, Header) for line in lines) == 2, "drafting steps are known only at the end"
    rounds = (trace := trace_from_lines(lines)).rounds
    assert [(len(round_.tree) - 1, len(round_.acceptance.keep)) for round_ in rounds if len(round_.tree) > 1] == [
        (5, 1), (5, 3), (5, 3), (5, 1)]
    assert len(rounds) == 75 and tau(rounds) == 79 / 75 and text_of(trace).startswith(TEXT)


SUMS = {"spec_verify_ct": 4, "spec_num_correct_drafts": 6, "spec_num_proposed_drafts": 15}


@pytest.mark.parametrize("last", [
    event(choices=[], sglext={"spec_tokens_details": SUMS}), chunk("", sglext={"spec_tokens_details": SUMS}),
    chunk("", meta_info={"spec_verify_ct": 4, "spec_accept_token_num": 6, "spec_draft_token_num": 15})],
    ids=["at the top", "in the choice", "older names"])
def test_sglang_reports_sums_and_its_chunks_are_rounds(last: bytes) -> None:
    source = attached(one(" a") + chunk(" b c", " b", " c") + last + DONE, owner="sglang",
                      **{"/server_info": b'{"version": "0.9"}'})
    trace = trace_from_lines(lines_of(source))
    assert trace.header.engine == "SGLang 0.9" and trace.header.chunked and trace.header.budget is None
    assert all(figure in trace.end.note for figure in ("6", "15", "4"))
    assert lengths_of(trace) == [2, 1] and (trace.end.accepted, trace.end.drafted) == (0, 0), "the sums exceed the text"


def test_chunks_that_add_up_to_the_sums_are_rounds() -> None:
    sums = {"spec_verify_ct": 2, "spec_num_correct_drafts": 1, "spec_num_proposed_drafts": 8}
    lines = lines_of(attached(one(" a") + chunk(" b c", " b", " c") + one(" d") + event(
        choices=[], sglext={"spec_tokens_details": sums}) + DONE, owner="sglang"))
    assert [line.chunked for line in lines if isinstance(line, Header)] == [True, False], "the sums come at the end"
    trace = trace_from_lines(lines)
    assert known_tau(trace.header, trace.rounds) == 1.5 and (trace.end.accepted, trace.end.drafted) == (0, 0)


def test_llama_cpp_reports_sums_and_sends_single_tokens() -> None:
    answer = b"".join(map(one, "abcdefghi")) + chunk("", finish_reason="length") + event(
        choices=[], usage={}, timings={"predicted_n": 9, "draft_n": 8, "draft_n_accepted": 7}) + DONE
    trace = trace_from_lines(lines_of(attached(answer, owner="llamacpp", **{"/props": b'{"build_info": "b9"}'})))
    assert (trace.end.accepted, trace.end.drafted, trace.end.reason) == (7, 8, "length")
    assert trace.header.engine == "llama.cpp b9" and trace.header.chunked and is_read_back(trace)
    assert known_tau(trace.header, trace.rounds) is None


def test_a_server_without_a_report_is_shown_by_its_chunks() -> None:
    trace = trace_from_lines(lines_of(attached(chunk("One") + chunk(" two three") + chunk(" 🌳") + DONE)))
    assert text_of(trace) == "One two three 🌳" and len(trace.entries) == 3 and trace.end.note == ""
    assert trace.header.chunked


@pytest.mark.parametrize(("answer", "text", "tokens"), [
    (chunk("One two", "One"), "One two", 2), (chunk("One two", " two"), "One two", 2),
    (chunk("One two", "One", token_ids=[5, 6, 7]), "One two", 3),
    (chunk("One two", logprobs={"content": []}, token_ids=[5, 6]), "One two", 2),
    (chunk("One", "One", "<|im_end|>"), "One<|im_end|>", 2), (chunk("", token_ids=[7]), "", 1),
    (event(choices=[{"delta": {"reasoning": "So", "reasoning_content": "So", "content": " 7"}}]), "So 7", 1),
    (event(choices=[{"delta": {"reasoning": "So", "reasoning_content": None}}]), "So", 1),
    (event(choices=[{"delta": {"content": None, "reasoning": ""}}]) + event(choices=None) + chunk("x"), "x", 1),
    (chunk("word " * MAX_PIECE_LENGTH), "word " * MAX_PIECE_LENGTH, 5)])
@pytest.mark.parametrize("end", [DONE, b"", event(usage={"total_tokens": 3}) + DONE, b'data: {"usa'])
def test_all_text_of_a_chunk_is_shown_once(answer: bytes, text: str, tokens: int, end: bytes) -> None:
    lines = lines_of(attached(chunk("a") + DONE, one("a") + answer + one(".", finish_reason="stop") + end))
    trace = trace_from_lines(lines)
    assert text_of(trace) == f"a{text}" + ("" if not trace.header.chunked else ".") and is_read_back(trace)
    assert len(committed_ids(trace.rounds)) == 1 + tokens + trace.header.chunked


def test_bytes_of_incomplete_characters_stay_bytes() -> None:
    tree = "🌳".encode()
    halves = [{"token": "\ufffd", "bytes": list(part)} for part in (tree[:2], tree[2:])]
    answer = one("a") + chunk("🌳", logprobs={"content": halves}, token_ids=[5, 6]) + one("z") + DONE
    trace = trace_from_lines(lines_of(attached(answer)))
    named = {token: piece for entry in trace.entries for token, piece in entry.pieces.items()}
    assert named[5] == tuple(tree[:2]) and named[6] == tuple(tree[2:])


def test_one_of_several_models_must_be_named() -> None:
    rows = [{"id": "base", "root": "org/base"}, {"id": "alias", "root": "org/base"}]
    adapted = [*rows, {"id": "org/adapter x", "root": "adapter", "parent": "base"}, {"id": "last"}]
    with scripted(models=says(json.dumps({"data": adapted})), chat=streams(one("a"), one("b"), DONE)) as script:
        with pytest.raises(ServerError) as refused:
            open_server(Client(script.address))
        assert all(name in str(refused.value) for name in ("base", "org/adapter x", "last", f"{script.address}#"))
        with pytest.raises(ServerError, match="'gone'"):
            open_server(Client(f"{script.address}/v1#gone"))
        source = attach(f"{script.address}#last", lambda *_: None)
        assert source.opened_as == f"{script.address}#last" and script.asked[-1][2]["model"] == "last"
        script.replies[MODELS] = says(json.dumps({"data": rows}))
        assert open_server(Client(script.address)).model == "base", "two names of one model count as one"


LONG = MAX_PIECE_LENGTH + 1


@pytest.mark.parametrize(("answer", "named", "kept"), [
    (one("a") + one("b"), "last event", 1), (one("a") + one("b") + b'data: {"choi\n\n', "JSON", 1),
    (one("a") + event(error={"message": "out of\nmemory"}), "'out of memory'", 0), (event(choices=7), "choices", 0),
    (event(choices=[7]), "choices.0", 0), (event(choices=[{"delta": {"content": 7}}]), "content", 0),
    (chunk("a", logprobs=7), "logprobs", 0), (chunk("a", logprobs={"content": [7]}), "logprobs.content.0", 0),
    (chunk("a", token_ids=["x"]), "token_ids.0", 0), (chunk("a", token_ids=[2**31]), "2147483648", 0),
    (chunk("a", token_ids=7), "token_ids", 0), (event(choices=[], prompt_token_ids=[-1]), "prompt_token_ids", 0),
    (DONE, "127.0.0.1", 0), (chunk("b", logprobs={"content": [{"token": "x" * LONG}]}), "1024", 0),
    (chunk("b", logprobs={"content": [{"token": "\ufffd", "bytes": [65] * LONG}]}), "1024", 0),
    (one("a") * (ASK.max_tokens + 1) + DONE, "200", ASK.max_tokens - 1)])
def test_an_invalid_answer_ends_the_run_and_keeps_its_rounds(answer: bytes, named: str, kept: int) -> None:
    source, lines = attached(chunk("a") + chunk("b") + DONE, answer), list[Any]()
    with pytest.raises(CanopyError, match=named) as refused:
        lines += source.prepare(ASK).lines()
    assert str(refused.value).isprintable() and str(refused.value).endswith(".")
    assert sum(isinstance(line, Entry) for line in lines) == kept


@pytest.mark.parametrize("figures", [
    {"per_step_accepted": [1], "per_step_drafted": []}, {"per_step_accepted": [3], "per_step_drafted": [2]},
    {"per_step_accepted": 7}, {"per_step_accepted": ["x"], "per_step_drafted": [1]}, {"num_spec_steps": -1},
    {"num_spec_steps": True}, {"num_spec_steps": 2**40}, {"num_spec_steps": 1.5},
    {"num_draft_tokens": 3, "num_accepted_draft_tokens": 4}])
def test_invalid_figures_are_refused(figures: dict[str, Any]) -> None:
    with pytest.raises(ServerError):
        attached(one("a") + event(choices=[], metrics={"speculative_decoding": figures}) + DONE, **REAL)


@pytest.mark.parametrize("listed", [
    '{"data": []}', '{"data": 7}', "{}", '{"data": [7]}', '{"data": [{"id": 7}]}', "7", '{"data": [', "[" * 100_000,
    *(json.dumps({"data": [{"id": name}]}) for name in ("", "\ud800", "two\nlines", "x" * 201, "\u202e"))])
def test_a_server_without_a_model_is_refused(listed: str) -> None:
    with pytest.raises(ServerError) as refused:
        attached(DONE, **dict[str, Any]({MODELS: listed.encode()}))
    assert str(refused.value).isprintable() and len(str(refused.value)) < 300


def test_a_server_runs_only_its_own_method() -> None:
    source = attached(one("a") + DONE)
    with pytest.raises(RequestError, match=SERVED):
        source.prepare(PromptRequest("x", method="ddtree"))
    assert list(source.methods) == [SERVED] and list(source.default_drafters(SERVED)) == list(source.drafters)


@pytest.mark.parametrize(("sizes", "accepted", "written"), [
    ([0, 3, 1, 4], (2, 0, 3), [3, 1, 4]), ([0, 8], (2, 0, 3), [3, 1, 4]), ([2, 3, 1, 2], (2, 0, 2, 3), [3, 1, 3, 1]),
    ([0, 1, 3, 1, 2], (2, 3), [1, 3, 1, 2]), ([0, 1, 1, 1, 3], (0, 2), [1, 1, 1, 3]), ([0, 1, 2, 2], (2,), None),
    ([0, 1, 3], (9,), [1, 3]), ([0, 9], (2,), None), ([0, 2], (2, 3), None), ([0, 1], (), None),
    ([0, 1, 1], (0, 0, 0), None)])
def test_steps_are_found_in_chunks(sizes: Sequence[int], accepted: tuple[int, ...], written: list[int] | None) -> None:
    steps = steps_of_report(sizes, ServerReport(accepted_per_step=list(accepted), drafted_per_step=[9] * len(accepted)))
    assert (None if steps is None else [step.written for step in steps]) == written
    assert sum(step.drafted == 9 for step in steps or ()) == (len(accepted) if steps else 0)
