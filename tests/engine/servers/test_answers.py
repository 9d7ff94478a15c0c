"""What servers answered, as rounds. vLLM's answers are those of vLLM 0.32.0 on the demo target, recorded; those of
SGLang and llama.cpp are made from their documents and sources, as the names of their tests say."""

import gzip
import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

from engine.decoding.methods import SERVED
from engine.errors import CanopyError, RequestError, ServerError
from engine.recorder import MAX_PIECE_LENGTH, UNKNOWN_TOKEN
from engine.records import PromptRequest, Round, Sampling
from engine.servers.answer import ServerStep, Token, chain_round, steps_of_chunks, steps_of_report
from engine.servers.client import Client
from engine.servers.kind import MAX_DRAFTED, ServerReport
from engine.servers.server import open_server
from engine.trace import UPLOADED, Entry, Header, Line, Trace, committed_ids, dumps, gather, known_tau, loads, tau
from explorer.attached import AttachedServer, attach
from tests.engine.servers.scripted_server import (
    ANSWERS,
    CHAT,
    DONE,
    MODELS,
    Script,
    answers,
    chunk,
    event,
    says,
    scripted,
    streams,
)
from tests.engine.test_trace import peak_bytes

DFLASH = [12, 12, 16, 9, 11, 2, 16, 1]  # its rounds; vLLM reports the last as 3, one of which is the stop token
TEXT = "The hall has 8 * 10 = 80 chairs."
ASK = PromptRequest("How many?", method=SERVED, budget=64, max_tokens=200, sampling=Sampling(0.5, 20, 0.9, 7),
          turns=(("system", "Be brief."),))


def vllm(name: str, trial: str = "") -> dict[str, Any]:
    """VLLM as it was recorded."""
    files = {what: says(answers(f"vllm-0.32.0-{what}.json")) for what in ("models", "version")}
    return {**files, "metrics": says(answers("vllm-0.32.0-metrics.txt"), "text/plain; version=1.0.0; charset=utf-8"),
            "chat": streams(answers(f"vllm-0.32.0-{trial or name}.txt"))}


@contextmanager
def attached(script: Script, then: bytes | None = None) -> Iterator[AttachedServer]:
    """The server as a rig; from now on it answers with ``then``."""
    source = attach(script.address, lambda *_: None).source
    assert isinstance(source, AttachedServer)
    if then is not None:
        script.replies[CHAT] = streams(then)
    yield source
    source.close()


def lines_of(answer: bytes, then: bytes | None = None, **paths: Any) -> list[Line]:
    """The run of a server that gives this answer to its trial request, and then the other one."""
    with scripted(**{"models": MODELS, "chat": streams(answer), **paths}) as script, attached(script, then) as source:
        return [line for line in source.prepare(ASK).lines() if line is not None]


def run_of(source: AttachedServer) -> Trace:
    return gather(filter(None, source.prepare(ASK).lines()))


def rounds_of(trace: Trace) -> list[Round]:
    return [entry.round for entry in trace.entries]


def lengths_of(trace: Trace) -> list[int]:
    return [len(round_.acceptance.keep) for round_ in rounds_of(trace)]


def text_of(trace: Trace) -> str:
    named = {token: piece for entry in trace.entries for token, piece in entry.pieces.items()}
    return "".join(str(named[token]) for token in committed_ids(rounds_of(trace)))


def opened_again(trace: Trace) -> bool:
    again = loads(gzip.compress(dumps(trace)), "run", UPLOADED)
    return dumps(again) == dumps(trace)


def test_vllms_steps_are_rounds_with_its_own_tokens() -> None:
    with scripted(**vllm("dflash", "trial")) as script, attached(script, answers("vllm-0.32.0-dflash.txt")) as source:
        lines = list(source.prepare(ASK).lines())
        asked = script.asked[-1][2]
    assert sum(isinstance(line, Header) for line in lines) == 1, "chunks were steps, so nothing had to be told anew"
    trace = gather(filter(None, lines))
    assert not trace.header.chunked
    rounds = rounds_of(trace)
    assert lengths_of(trace) == DFLASH and {len(round_.tree) for round_ in rounds} == {16}
    assert text_of(trace).startswith(TEXT) and text_of(trace).endswith("Answer: 13")
    assert rounds[0].start == len(trace.header.request.prompt_ids) == 46
    assert [round_.tree.tokens[0] for round_ in rounds[1:]] == [round_.acceptance.bonus for round_ in rounds[:-1]]
    assert rounds[0].verification.logprobs[0] == np.float32(-0.0038963842671364546)
    assert rounds[-1].tree.tokens[1] == rounds[-1].acceptance.bonus == 2, "the stop token was a drafted one"
    assert np.isnan(rounds[0].verification.logprobs[12:]).all() and set(rounds[0].tree.tokens[12:]) == {UNKNOWN_TOKEN}
    assert trace.end.said == ("vLLM's own figures: mean acceptance length 10.1 over 8 steps, 73 of 120 drafted tokens "
                              "accepted.")
    header = trace.header
    assert (header.engine, header.budget, header.context_limit, header.rig) == (
        "vLLM 0.32.0", 15, 512, f"demo at {script.address}")
    assert "reports its steps" in header.note and opened_again(trace)
    assert asked["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}]
    assert {name: asked[name] for name in ("temperature", "top_k", "top_p", "seed", "max_tokens", "model")} == {
        "temperature": 0.5, "top_k": 20, "top_p": 0.9, "seed": 7, "max_tokens": 200, "model": "demo"}


def test_steps_that_vllm_leaves_out_are_joined_with_its_chunks() -> None:
    """With n-grams nothing is drafted in most steps, and the report has four of them alone."""
    answer = answers("vllm-0.32.0-ngram.txt")
    with scripted(**vllm("ngram", "ngram-trial")) as script, attached(script, answer) as source:
        assert "drafted nothing for this text" in source.good_at
        lines = list(source.prepare(ASK).lines())
    headers = [line for line in lines if isinstance(line, Header)]
    assert len(headers) == 2, "which steps drafted is known at the end, and the run is told anew"
    rounds = rounds_of(gather(filter(None, lines)))
    assert [(len(round_.tree) - 1, len(round_.acceptance.keep)) for round_ in rounds if len(round_.tree) > 1] == [
        (5, 1), (5, 3), (5, 3), (5, 1)]
    assert len(rounds) == 75 and tau(rounds) == 79 / 75 and "reports its steps" in headers[1].note
    assert text_of(gather(filter(None, lines))).startswith(TEXT)


def test_what_vllm_counts_over_everybody() -> None:
    with scripted(**vllm("dflash", "trial")) as script:
        counts = open_server(Client(script.address)).counts()
    assert (counts.drafts, counts.accepted, counts.running) == (30, 147, 0)
    assert counts.by_depth[:3] == (17, 14, 12) and len(counts.by_depth) == 15


def test_vllms_refusal_is_in_its_own_words() -> None:
    with scripted(**vllm("dflash", "trial")) as script, attached(script) as source:
        script.replies[CHAT] = says(answers("vllm-0.32.0-refused.json"), status=400)
        with pytest.raises(ServerError, match=r"refuses \(status 400\)\. It says: 'temperature must be non-negative"):
            list(source.prepare(ASK).lines())


def model(owner: str) -> Any:
    return says(json.dumps({"data": [{"id": "m", "owned_by": owner, "max_model_len": 4096}]}))


def one(token: str, **more: Any) -> bytes:
    content = {"token": token, "logprob": -0.5, "bytes": list(token.encode())}
    return chunk(token, logprobs={"content": [content]}, **more)


SGLANG = {"spec_accept_rate": 0.4, "spec_accept_length": 2.5, "spec_verify_ct": 4, "spec_num_correct_drafts": 6,
          "spec_num_proposed_drafts": 15, "spec_correct_drafts_histogram": [1, 1, 2]}


@pytest.mark.parametrize("last", [
    event(choices=[], sglext={"spec_tokens_details": SGLANG}), chunk("", sglext={"spec_tokens_details": SGLANG}),
    chunk("", meta_info={"spec_verify_ct": 4, "spec_accept_token_num": 6, "spec_draft_token_num": 15})],
    ids=["at the top", "in the choice", "older names"])
def test_from_documents_sglang_tells_sums_and_its_chunks_are_rounds(last: bytes) -> None:
    answer = one(" a") + chunk(" b c", logprobs={"content": [{"token": " b"}, {"token": " c"}]}) + last + DONE
    with scripted(models=model("sglang"), chat=streams(answer), server_info=says('{"version": "0.9"}'),
                  metrics=says("sglang:spec_accept_length{model=\"m\"} 2.5\n", "text/plain")) as script, \
            attached(script) as source:
        trace = run_of(source)
        assert source.server.counts().length == 2.5
        assert script.asked[-2][2]["return_spec_tokens_details"] is True
    assert "SGLang 0.9 reports sums alone: its rounds are not known" in trace.header.note
    assert "6 of 15 drafted tokens accepted in 4 verifications" in trace.end.said
    assert lengths_of(trace) == [2, 1] and trace.header.budget is None
    assert trace.header.chunked and (trace.end.accepted, trace.end.drafted) == (0, 0), "more than the text has"


def test_chunks_that_add_up_to_the_sums_are_rounds() -> None:
    sums = {"spec_verify_ct": 2, "spec_num_correct_drafts": 1, "spec_num_proposed_drafts": 8}
    answer = one(" a") + chunk(" b c", logprobs={"content": [{"token": " b"}, {"token": " c"}]}) + one(" d") + event(
        choices=[], sglext={"spec_tokens_details": sums}) + DONE
    lines = lines_of(answer, models=model("sglang"))
    headers = [line for line in lines if isinstance(line, Header)]
    assert [header.chunked for header in headers] == [True, False], "known at the end, and told anew"
    trace = gather(lines)
    assert known_tau(trace.header, rounds_of(trace)) == 1.5 and (trace.end.accepted, trace.end.drafted) == (0, 0)


def test_from_sources_llama_cpp_tells_sums_and_sends_every_token_by_itself() -> None:
    timings = {"predicted_n": 12, "draft_n": 9, "draft_n_accepted": 7}
    answer = b"".join(map(one, (" a", " b", " c"))) + chunk("", finish_reason="length") + event(
        choices=[], usage={}, timings=timings) + DONE
    with scripted(models=model("llamacpp"), chat=streams(answer), props=says('{"build_info": "b9"}'), metrics=says(
            "# HELP llamacpp:spec_decode_num_drafts_total x\nllamacpp:spec_decode_num_drafts_total 3\n"
            'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 2\n', "text/plain")) as script, \
            attached(script) as source:
        trace = run_of(source)
        counts = source.server.counts()
    assert trace.end.said == ("llama.cpp's own figures: 7 of 9 drafted tokens accepted, so its 12 tokens took about 5 "
                              "passes.") and trace.end.reason == "length"
    assert trace.header.engine == "llama.cpp b9" and (counts.drafts, counts.by_depth) == (3, (0, 2))
    assert trace.header.chunked and known_tau(trace.header, rounds_of(trace)) is None


def test_the_sums_of_a_run_whose_rounds_are_not_known_are_kept() -> None:
    timings = {"predicted_n": 9, "draft_n": 8, "draft_n_accepted": 7}
    answer = b"".join(map(one, "abcdefghi")) + event(choices=[], timings=timings) + DONE
    with scripted(models=model("llamacpp"), chat=streams(answer)) as script, attached(script) as source:
        trace = run_of(source)
        with pytest.raises(ServerError, match=r"has no /metrics \(404\).*started with --metrics"):
            source.server.counts()
        assert "--metrics" not in source.good_at, "which says nothing of a flag that may be on"
    assert (trace.end.accepted, trace.end.drafted) == (7, 8) and trace.header.chunked
    assert opened_again(trace)


def test_a_server_that_tells_nothing_is_shown_by_its_chunks() -> None:
    with scripted(models=MODELS, chat=streams(chunk("One"), chunk(" two three"), chunk(" 🌳"), DONE)) as script, \
            attached(script) as source:
        assert "reports nothing of speculation: its rounds are not known" in source.good_at
        trace = run_of(source)
        with pytest.raises(ServerError, match="has no /metrics"):
            source.server.counts()
    assert text_of(trace) == "One two three 🌳" and len(trace.entries) == 3 and trace.end.said == ""
    assert trace.header.chunked


def listed(*tokens: str) -> dict[str, Any]:
    return {"content": [{"token": token, "logprob": -0.5} for token in tokens]}


@pytest.mark.parametrize(("answer", "text", "tokens"), [
    (chunk("One two", logprobs=listed("One")), "One two", 2), (chunk("One two", logprobs=listed(" two")), "One two", 2),
    (chunk("One two", logprobs=listed("One"), token_ids=[5, 6, 7]), "One two", 3),
    (chunk("One two", logprobs={"content": []}, token_ids=[5, 6]), "One two", 2),
    (chunk("One", logprobs=listed("One", "<|im_end|>")), "One<|im_end|>", 2), (chunk("", token_ids=[7]), "", 1),
    (event(choices=[{"delta": {"reasoning": "So", "reasoning_content": "So", "content": " 7"}}]), "So 7", 1),
    (event(choices=[{"delta": {"reasoning": "So", "reasoning_content": None}}]), "So", 1),
    (event(choices=[{"delta": {"content": None, "reasoning": ""}}]) + chunk("x"), "x", 1)])
@pytest.mark.parametrize("end", [DONE, b"", event(usage={"total_tokens": 3}) + DONE, event(usage={}, choices=None)])
def test_all_text_of_a_chunk_is_shown_once(answer: bytes, text: str, tokens: int, end: bytes) -> None:
    whole = one("a") + answer + one(".", finish_reason="stop") + end
    trace = gather(lines_of(whole))
    assert text_of(trace) == f"a{text}" + ("" if not trace.header.chunked else ".")
    assert len(committed_ids(rounds_of(trace))) == 1 + tokens + trace.header.chunked


def test_one_of_several_models_has_to_be_named() -> None:
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
        script.replies["/v1/models"] = says(json.dumps({"data": rows}))
        assert open_server(Client(script.address)).model == "base", "two names of one model are no choice"


def test_bytes_that_are_no_whole_character_stay_bytes() -> None:
    tree = "🌳".encode()
    halves = [{"token": "\ufffd", "bytes": list(part)} for part in (tree[:2], tree[2:])]
    answer = one("a") + chunk("🌳", logprobs={"content": halves}, token_ids=[5, 6]) + one("z") + DONE
    named = {token: piece for entry in gather(lines_of(answer)).entries for token, piece in entry.pieces.items()}
    assert named[5] == tuple(tree[:2]) and named[6] == tuple(tree[2:])


@pytest.mark.parametrize(("answer", "words", "kept"), [
    (one("a") + one("b"), "breaks off in the middle; what came until then is kept", 1),
    (one("a") + one("b") + b'data: {"choi', "which is not complete JSON", 1),
    (one("a") + event(id=7), "an event with 'id'", 0),
    (event(choices=7), "an event with 'choices'", 0), (event(choices=[7]), "a choice that is 7", 0),
    (one("a") + event(error={"message": "out of\nmemory"}), "The server gave up: 'out of memory'", 0),
    (event(choices=[{"delta": {"content": 7}}]), "sent 7 as text", 0),
    (event(choices=[{"delta": {"content": "a"}, "logprobs": 7}]), "logprobs that is 7", 0),
    (event(choices=[{"delta": {"content": "a"}, "logprobs": {"content": [7]}}]), "a token that is 7", 0),
    (event(choices=[{"delta": {"content": "a"}, "token_ids": ["x"]}]), "other than token ids", 0),
    (event(choices=[{"delta": {"content": "a"}, "token_ids": [2**31]}]), "other than token ids", 0),
    (event(choices=[{"delta": {"content": "a"}, "token_ids": 7}]), "token_ids are 7", 0),
    (event(choices=[], prompt_token_ids=[-1]), "prompt_token_ids hold something", 0), (DONE, "wrote nothing", 0),
    *((chunk("b", logprobs={"content": [long]}) + DONE, "1,024", 0) for long in (
        {"token": "x" * (MAX_PIECE_LENGTH + 1)}, {"token": "\ufffd", "bytes": [65] * (MAX_PIECE_LENGTH + 1)})),
    (one("a") * (ASK.max_tokens + 1) + DONE, "more than the 200 tokens that it was asked for", ASK.max_tokens - 1)])
def test_another_answer_ends_the_run_in_a_sentence_and_keeps_its_rounds(answer: bytes, words: str, kept: int) -> None:
    with scripted(models=MODELS, chat=streams(one("a"), one("b"), DONE)) as script, attached(script, answer) as source:
        lines: list[Any] = []
        with pytest.raises(CanopyError, match=re.escape(words)) as refused:
            lines += source.prepare(ASK).lines()
        assert "\n" not in str(refused.value) and str(refused.value).endswith(".")
    assert sum(isinstance(line, Entry) for line in lines) == kept


@pytest.mark.parametrize("figures", [
    {"per_step_accepted": [1], "per_step_drafted": []}, {"per_step_accepted": [3], "per_step_drafted": [2]},
    {"per_step_accepted": 7}, {"per_step_accepted": ["x"], "per_step_drafted": [1]}, {"num_spec_tokens": -1},
    {"num_spec_tokens": True}, {"num_draft_tokens": 2**40},
    {"num_draft_tokens": 3, "num_accepted_draft_tokens": 4}])
def test_figures_that_are_none_are_refused(figures: dict[str, Any]) -> None:
    answer = one("a") + one("b") + event(choices=[], metrics={"speculative_decoding": figures}) + DONE
    with scripted(**{**vllm("dflash", "trial"), "chat": streams(answer)}) as script, \
            pytest.raises(ServerError, match="report") as refused:
        open_server(Client(script.address))
    assert str(refused.value).endswith(".") and "\n" not in str(refused.value)


@pytest.mark.parametrize(("models", "words"), [
    ('{"data": []}', "lists no model"), ('{"data": 7}', "lists no model"), ("{}", "lists no model"),
    ('{"data": [7]}', "lists no model"), ('{"data": [{"id": 7}]}', "calls its model 7"),
    *((json.dumps({"data": [{"id": name}]}), "it has to have a name of at most 200 printable characters")
      for name in ("", "\ud800", "two\nlines", "x" * 201, "\u202e"))])
def test_a_server_without_a_model_is_refused(models: str, words: str) -> None:
    with scripted(models=says(models)) as script, pytest.raises(ServerError, match=words) as refused:
        open_server(Client(script.address))
    assert str(refused.value).isprintable()


def test_it_runs_as_it_was_started_and_in_no_other_way() -> None:
    with scripted(**vllm("dflash", "trial")) as script, attached(script) as source:
        with pytest.raises(RequestError, match="choose the method served"):
            source.prepare(PromptRequest("x", method="ddtree")).lines()
        assert list(source.methods) == [SERVED] and list(source.usual_drafters(SERVED)) == list(source.drafters)


@pytest.mark.parametrize(("sizes", "accepted", "written"), [
    ([0, 3, 1, 4], (2, 0, 3), [3, 1, 4]), ([0, 8], (2, 0, 3), [3, 1, 4]), ([2, 3, 1, 2], (2, 0, 2, 3), [3, 1, 3, 1]),
    ([0, 1, 3, 1, 2], (2, 3), [1, 3, 1, 2]), ([0, 1, 1, 1, 3], (0, 2), [1, 1, 1, 3]), ([0, 1, 2, 2], (2,), None),
    ([0, 1, 3], (9,), [1, 3]), ([0, 9], (2,), None), ([0, 2], (2, 3), None), ([0, 1], (), None)])
def test_steps_are_found_in_chunks(sizes: Sequence[int], accepted: tuple[int, ...], written: list[int] | None) -> None:
    steps = steps_of_report(sizes, ServerReport("", accepted, tuple(9 for _ in accepted)))
    assert (None if steps is None else [step.written for step in steps]) == written
    if steps:
        assert sum(step.written for step in steps) == sum(sizes)
        assert sum(step.drafted == 9 for step in steps) == len(accepted)


def test_a_chunk_is_a_step_where_nothing_else_is_known() -> None:
    assert steps_of_chunks([0, 3, 1], 0) == [ServerStep(3, 2), ServerStep(1, 0)]
    assert steps_of_chunks([3, 1], 15) == [ServerStep(3, 15), ServerStep(1, 15)]


def test_the_fixtures_speak_of_no_machine() -> None:
    for path in ANSWERS.iterdir():
        assert "/root" not in path.read_text("utf8") and "/work" not in path.read_text("utf8")


def test_without_its_flag_vllms_chunks_are_its_steps_all_the_same() -> None:
    answer = answers("vllm-0.32.0-plain.txt")
    with scripted(**vllm("plain", "plain-trial")) as script, attached(script, answer) as source:
        trace = run_of(source)
    assert lengths_of(trace) == DFLASH and trace.header.budget is None
    assert "reports nothing of speculation: a chunk of its answer is a round. Start vLLM" in source.good_at


def test_a_report_takes_no_more_memory_than_its_text() -> None:
    many = {"per_step_accepted": [5], "per_step_drafted": [2**31 - 1], "num_spec_tokens": 2**31 - 1}
    six = b"".join(map(one, "abcdef"))

    def attack(trial: dict[str, Any], answer: dict[str, Any]) -> None:
        opening, last = (six + event(choices=[], metrics={"speculative_decoding": figures}) + DONE
                         for figures in (trial, answer))
        with suppress(ServerError):  # a report may be refused
            lines_of(opening, last, models=vllm("dflash")["models"])

    assert max(peak_bytes(lambda: attack({}, many)), peak_bytes(lambda: attack(many, {}))) < 64 * 2**20


def test_a_round_is_as_large_as_its_tokens_and_what_a_step_may_draft() -> None:
    tokens = [Token(number, "x") for number in range(3)]
    assert len(chain_round(0, 0, tokens, ServerStep(2, 2**40)).tree) == MAX_DRAFTED + 1
    assert len(chain_round(0, 0, tokens, ServerStep(2, 0)).tree) == 2


def test_a_report_of_more_steps_than_tokens_does_not_count() -> None:
    began = time.monotonic()
    assert steps_of_report([0, 1, 1], ServerReport("", (0, 0, 0), (5, 5, 5))) is None
    many = (0,) * 60_000
    assert len(steps_of_report(many + (1,) * 60_000, ServerReport("", many, many)) or []) == 60_000
    assert time.monotonic() - began < 10


def test_text_in_one_chunk_of_any_length_can_be_exported() -> None:
    whole = "word " * MAX_PIECE_LENGTH
    trace = gather(lines_of(chunk("a") + DONE, chunk("One") + chunk(whole) + chunk(".") + DONE))
    assert opened_again(trace) and text_of(trace) == f"One{whole}."


def test_numbers_that_no_float_holds_count_as_unknown() -> None:
    listed = says('{"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 1%s}]}' % ("0" * 400))
    token = {"token": "b", "logprob": -10**400}
    answer = one("a") + chunk("b", logprobs={"content": [token]}) + event(choices=[], metrics={
        "speculative_decoding": {"mean_acceptance_length": 10**400, "num_spec_steps": 1}}) + DONE
    trace = gather(lines_of(chunk("a") + DONE, answer, models=listed))
    assert trace.header.context_limit == 0 and opened_again(trace)
    assert "mean acceptance length ? over 1 steps" in trace.end.said
