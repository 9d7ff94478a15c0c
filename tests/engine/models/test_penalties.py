"""Penalties, biases and min-p: each node has the logits of plain decoding, so all methods write the same text."""

from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch

from engine.decoding.options import prompt_request
from engine.errors import RequestError
from engine.models.penalties import LogitsAdjustment
from engine.models.sampling import processed_logprobs
from engine.models.target import TorchTarget
from engine.records import PackedTree, Request, Sampling
from tests.engine.demo import demo_live
from tests.engine.helpers import LOSSLESS, WALKING, ancestors, decode, plain_text, text
from tests.engine.models.shrunk import FallibleDrafter, shrunk
from tests.engine.serving.test_rig import MATH, text_ids

SETTINGS: list[dict[str, Any]] = [
    {"repetition_penalty": 1.3}, {"presence_penalty": 1.5}, {"frequency_penalty": -0.7},
    {"logit_bias": ((17, -100.0), (30, 2.5))},
    {"repetition_penalty": 0.8, "presence_penalty": -0.5, "frequency_penalty": 0.9, "temperature": 0.8, "min_p": 0.1,
     "seed": 5}]


def test_a_node_counts_the_text_and_its_own_path() -> None:
    random = np.random.default_rng(0)
    vocabulary, prompt, written = 12, [1, 2, 2], [3, 4, 3]
    parents = np.asarray([0, 0, 1, 1, 3, 0], np.int32)
    tokens = np.asarray([4, 3, 5, 3, 1, 5], np.int32)
    logits = torch.from_numpy(random.normal(size=(6, vocabulary)).astype(np.float32))
    sampling = Sampling(repetition_penalty=1.4, presence_penalty=0.3, frequency_penalty=0.2, logit_bias=((7, 1.5),))
    adjustment = LogitsAdjustment(sampling, prompt, vocabulary)
    adjustment.commit(np.asarray(written, np.int32))
    found = adjustment.adjust(logits, PackedTree(tokens, parents, parents, ancestors(parents))).numpy()
    for node in range(6):
        path = [node]
        while path[-1]:
            path.append(int(parents[path[-1]]))
        text = [*written, *(int(tokens[step]) for step in path)]
        for token in range(vocabulary):
            wanted = float(logits[node, token]) + 1.5 * (token == 7)
            if token in {*prompt, *text}:
                wanted = wanted / 1.4 if wanted > 0 else wanted * 1.4
            wanted -= 0.2 * text.count(token) + 0.3 * (token in text)
            assert found[node, token] == pytest.approx(wanted, abs=1e-5), (node, token)


def test_counting_paths_takes_little_longer_than_the_penalties() -> None:
    nodes, vocabulary = 512, 5000
    parents = np.maximum(np.arange(-1, nodes - 1, dtype=np.int32), 0)
    tree = PackedTree(parents, parents, parents, ancestors(parents))
    logits = torch.zeros(nodes, vocabulary)
    adjustment = LogitsAdjustment(Sampling(repetition_penalty=1.4), range(vocabulary), vocabulary)

    def seconds(*given: PackedTree) -> float:
        began = perf_counter()
        adjustment.adjust(logits, *given)
        return perf_counter() - began
    assert min(seconds(tree) for _ in range(3)) < 5 * min(seconds() for _ in range(3))


@pytest.mark.parametrize("setting", SETTINGS, ids=",".join)
def test_every_lossless_method_writes_the_text_of_plain_decoding(setting: dict[str, Any]) -> None:
    target, sampling = TorchTarget(shrunk("qwen3"), ()), Sampling(**setting)
    request = Request((5, 6, 7, 5, 8), budget=12, max_tokens=40, sampling=sampling)
    plain = plain_text(request, target)
    unpenalised = Sampling(sampling.temperature, seed=sampling.seed)
    assert plain != plain_text(replace(request, sampling=unpenalised), target)
    drafters = [FallibleDrafter(request.prompt_ids, plain, seed) for seed in (0, 1)]
    for method in WALKING if sampling.temperature else LOSSLESS:
        rounds = list(decode(replace(request, method=method), target, drafters))
        assert text(rounds) == plain and (method == "autoregressive" or len(rounds) < len(plain)), method


def test_the_repetition_penalty_equals_that_of_transformers() -> None:
    live = demo_live()
    prompt = torch.tensor([live.prompt_ids(MATH)])
    theirs = live.target.model.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=32, repetition_penalty=2.0,
        eos_token_id=sorted(live.stop_ids))[0, prompt.shape[1]:].tolist()
    ours = text_ids(live, MATH, max_tokens=32, sampling=Sampling(repetition_penalty=2.0))
    assert ours != text_ids(live, MATH, max_tokens=32)
    assert ours == [token for token in theirs if token not in live.stop_ids]


def test_min_p_cuts_tokens_far_below_the_likeliest() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.1]]))
    torch.testing.assert_close(processed_logprobs(logits, Sampling(1.0, min_p=0.29)).exp(),
                               torch.tensor([[5 / 9, 2.5 / 9, 1.5 / 9, 0]]))


@pytest.mark.parametrize("given", ["5:-1.5, 2:3", {"5": -1.5, 2: 3}, [[5, -1.5], [2, 3]]])
def test_biases_are_read_in_every_notation(given: Any) -> None:
    assert prompt_request({"prompt": "a", "logit_bias": given}).sampling.logit_bias == ((2, 3.0), (5, -1.5))


@pytest.mark.parametrize("given", ["5", "5:x", "-1:2", "5:1000", [1, 2], {"a": 1}, [(1, 2, 3)], "1:1," * 400, 7])
def test_an_invalid_bias_is_refused_by_name(given: Any) -> None:
    with pytest.raises(RequestError, match="bias"):
        prompt_request({"prompt": "a", "logit_bias": given})


def test_a_bias_beyond_the_vocabulary_is_refused_by_its_token() -> None:
    with pytest.raises(RequestError, match="1000000"):
        text_ids(demo_live(), MATH, sampling=Sampling(logit_bias=((1_000_000, 1.0),)))
