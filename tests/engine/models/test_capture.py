"""The target's pass captured: the same texts, one graph a bucket, and what is not covered is said."""

from collections.abc import Iterator

import pytest
import torch
from torch._dynamo.utils import counters
from transformers import LlamaConfig, LlamaForCausalLM

from engine.decoding.loop import BatchRequest, decode_batch
from engine.errors import RigError
from engine.models import capture
from engine.models.target import TorchTarget
from engine.records import Request, Sampling
from tests.engine.material import text_of
from tests.engine.models.shrunk import VOCABULARY, HalfKnowing, shrunk

PROMPT = tuple(range(5, 17))


def small_llama(backend: str = "") -> TorchTarget:
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256)).eval()
    for value in model.parameters():
        if value.ndim == 2:
            value.data.normal_(0, 0.15)
    target = TorchTarget(model, (0,))
    if backend:
        target.capture(backend)
    return target


@pytest.fixture(autouse=True)
def _small_buckets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(capture, "BUFFER", 128)
    monkeypatch.setattr(capture, "LEAST_CONTEXT", 32)
    counters.clear()
    yield
    torch._dynamo.reset()


def asked(method: str, budget: int, max_tokens: int = 60, sampling: Sampling = Sampling()) -> Request:  # noqa: B008
    return Request(PROMPT, method=method, budget=budget, max_tokens=max_tokens, sampling=sampling)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_texts_are_those_without_and_each_bucket_is_compiled_once(backend: str) -> None:
    usual, target = small_llama(), small_llama(backend)
    captured = target.captured
    assert captured
    for sampling in (Sampling(), Sampling(0.9, seed=3)):
        plain = text_of(asked("autoregressive", 0, sampling=sampling), usual, [])
        assert len(set(plain)) > 8, "a text that repeats itself proves nothing"
        known = [HalfKnowing(PROMPT, plain)]
        for method, budget in (("autoregressive", 0), ("ddtree", 12)):
            wanted = asked(method, budget, sampling=sampling)
            assert text_of(wanted, target, known) == text_of(wanted, usual, known) == plain
    assert {context for _, context in captured.graphs} == {32, 64, 128} and len(captured.graphs) > 4
    assert counters["stats"]["unique_graphs"] == len(captured.graphs)
    assert not captured.passes[None] and sum(captured.passes.values()) > 100


def test_a_graph_that_would_be_compiled_again_is_a_sentence() -> None:
    target, threads = small_llama("aot_eager"), torch.get_num_threads()
    text_of(asked("autoregressive", 0, 4), target, [])
    torch.set_num_threads(threads + 1)  # which graphs are guarded against
    try:
        with pytest.raises(RigError, match=r"over 1 rows could not be captured \(.*leave --capture out\.$"):
            text_of(asked("autoregressive", 0, 4), target, [])
    finally:
        torch.set_num_threads(threads)


def test_what_is_not_covered_goes_as_without_and_is_counted() -> None:
    usual, target = small_llama(), small_llama("aot_eager")
    captured = target.captured
    assert captured
    requests = [asked("autoregressive", 0, 8), asked("autoregressive", 0, 8, Sampling(0.9, seed=1))]
    wanted = [text_of(request, usual, []) for request in requests]
    texts: list[list[int]] = [[], []]
    for number, round_ in decode_batch([BatchRequest(request, []) for request in requests], target, 2):
        texts[number] += round_.committed.tolist()
    assert texts == wanted and captured.passes[None] == sum(captured.passes.values()) > 0
    captured.passes.clear()
    long = asked("autoregressive", 0, 130)
    assert text_of(long, target, []) == text_of(long, usual, [])
    assert list(captured.passes) == [None], "the text is longer than the buffer"
    text_of(asked("autoregressive", 0, 8), target, [])
    assert sum(count for size, count in captured.passes.items() if size) == 8, "what was borrowed is given back"


@pytest.mark.parametrize(("kind", "dtype", "sentence"), [
    ("qwen3_next", torch.float32, "of a qwen3_next go through transformers' own code"),
    ("gemma2", torch.float32, "of a gemma2 go through transformers' own code"),
    ("qwen3_moe", torch.float32, "A qwen3_moe is a mixture of experts"),
    ("llama", torch.bfloat16, "only weights in float32 are captured, and these are in bfloat16")])
def test_what_cannot_be_captured_is_refused_in_a_sentence(kind: str, dtype: torch.dtype, sentence: str) -> None:
    with pytest.raises(RigError, match=sentence):
        TorchTarget(shrunk(kind, dtype), ()).capture()
