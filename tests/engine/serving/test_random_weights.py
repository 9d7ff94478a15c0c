"""Rigs of random weights have the published sizes and the same weights each time, and every verb runs on them."""

import json
from dataclasses import replace
from functools import lru_cache

import pytest
import torch
from transformers import AutoModelForCausalLM

from engine.checkpoints import memory
from engine.checkpoints.memory import DEFAULT_CONTEXT
from engine.commands.program import main
from engine.errors import RigError
from engine.records import PromptRequest, Request
from engine.serving import random_weights
from engine.serving.precision import storage_of
from engine.serving.random_weights import MEANINGLESS, SHAPES, random_models
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig, rig_parts
from engine.trace import trace_from_lines
from tests.engine.demo import demo_rig
from tests.engine.helpers import decode

TINY = "random:tiny"
CPU = torch.device("cpu")
PROMPT = "What is a draft tree?"


@lru_cache(maxsize=1)
def tiny() -> Rig:
    return load_rig(TINY, "float32", "cpu")


def test_published_shapes_have_the_published_sizes() -> None:
    with torch.device("meta"):
        models = {name: AutoModelForCausalLM.from_config(shape.kind(**shape.target))
                  for name, shape in SHAPES.items() if name != "tiny"}
    assert {name: round(sum(value.numel() for value in model.parameters()) / 1e9, 1)
            for name, model in models.items()} == {
                "qwen3-0.6b": 0.6, "qwen3-1.7b": 1.7, "qwen3-4b": 4.0, "qwen3-8b": 8.2, "llama3.1-8b": 8.0}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_with_smaller_layers_decodes_with_finite_logits(name: str) -> None:
    sizes = {**SHAPES[name].target, **{key: SHAPES["tiny"].target[key] for key in (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "vocab_size")}}
    shape = replace(SHAPES[name], target=sizes, taps=(0, 1))
    target, drafter = random_models(shape, storage_of("bfloat16"), CPU, DEFAULT_CONTEXT)
    assert target.model.dtype == drafter.model.fc.weight.dtype == torch.bfloat16
    tied = target.embedding.weight.data_ptr() == target.head.weight.data_ptr()
    assert tied == shape.target["tie_word_embeddings"]
    request = Request(tuple(range(5, 25)), method="ddtree", budget=9, max_tokens=12)
    for round_ in decode(request, target, [drafter]):
        assert len(round_.tree) == 10 and round_.tree.logprobs.min() > -100
        assert torch.isfinite(torch.from_numpy(round_.verification.logprobs)).all()
        assert len(round_.drafts[0].tokens) == drafter.model.depth


def test_the_weights_are_fixed_and_the_generator_stays_unchanged() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    again = load_rig(TINY, "float32", "cpu")
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(tiny().target.model.parameters(), again.target.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_every_id_has_a_text_and_every_run_has_a_note_on_random_weights(caplog: pytest.LogCaptureFixture) -> None:
    live = tiny()
    trace = trace_from_lines(live.run(PromptRequest(PROMPT, method="merged", budget=16, max_tokens=40)))
    assert trace.header.note == MEANINGLESS and trace.end.reason == "length"
    beyond = [piece for token, piece in trace.header.pieces.items() if token >= 1536]
    beyond += [piece for entry in trace.entries for token, piece in entry.pieces.items() if token >= 1536]
    assert beyond and all(str(piece).startswith("<") for piece in beyond)
    ask = PromptRequest(PROMPT)
    assert live.prepare(ask).request.prompt_ids == demo_rig().prepare(ask).request.prompt_ids
    load_rig(TINY, "float32", "cpu")
    assert MEANINGLESS in caplog.text


@pytest.mark.parametrize("words", [
    "generate --method joint --budget auto --max-tokens 12 --prompt hello",
    "bench --methods autoregressive ddtree plain --budgets 8 --prompts bench --limit 1 --repeats 1 --max-tokens 8",
    "check --prompts check --limit 1 --budgets 7 --max-tokens 8", "doctor --limit 1 --without-dtype",
    "whatif --prompt hello --budgets 4 --without-cost --max-tokens 8"])
def test_every_verb_runs_on_random_weights(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words.split(), "--rig", TINY, "--dtype", "float32", "--json"]) == 0, capsys.readouterr().err
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result.get("equal") == result.get("texts")  # if texts were compared


def test_a_shape_that_does_not_fit_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _: 18_000_000_000)
    monkeypatch.setattr(random_weights, "move_model", lambda *_: pytest.fail("weights were made"))
    with pytest.raises(RigError, match=r"19\.\d GB.*18\.5 .*bfloat16"):
        load_rig("random:qwen3-8b")


@pytest.mark.parametrize(("call", "sentence"), [
    (lambda: load_rig("random:huge"), "'huge'.*random:tiny, random:qwen3-0.6b, "),
    (lambda: load_rig(TINY, "int4"), "auto, float32, bfloat16"),
    (lambda: rig_parts(TINY), f"{TINY}.*fetch")])
def test_invalid_random_rigs_are_refused(call: object, sentence: str) -> None:
    assert callable(call)
    with pytest.raises(RigError, match=sentence):
        call()
