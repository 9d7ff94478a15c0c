"""A prompt that begins with a cached text gets the same bits as one that is read completely."""

from typing import Any

import numpy as np
import pytest
import torch

from engine.decoding.loop import DecodeRun
from engine.models import target as target_module
from engine.models.cache import NO_TEXT, ReusableText
from engine.models.target import TorchTarget
from engine.records import Request, Sampling
from engine.serving import reusable_texts
from engine.serving.reusable_texts import ReusableTexts
from tests.engine.helpers import text
from tests.engine.models.shrunk import FallibleDrafter, shrunk
from tests.engine.models.test_packed_linear import int4_target
from tests.engine.small import TAPS, small_target

ROWS = 8  # rows of a prefill pass in these tests
PROMPT, MORE = tuple(range(5, 26)), tuple(range(30, 41))  # two full passes and a part of one; the next turn
# Windows, chunks, latent attention, selected keys, shared keys and values.
LAYERED = ("gemma3_text", "llama4_text", "deepseek_v3", "deepseek_v32", "gemma3n_text")
RECURRENT = ("qwen3_5_text", "bamba")


@pytest.fixture(autouse=True)
def _shorten_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "PREFILL_ROWS", ROWS)
    monkeypatch.setattr(target_module, "INT4_PREFILL_ROWS", ROWS)


def target_of(kind: str) -> TorchTarget:
    if kind == "int4":
        return int4_target(taps=TAPS)
    return small_target() if kind == "fused" else TorchTarget(shrunk(kind), ())


class KeptRun(DecodeRun):
    """Keep a run's text for reuse when it closes."""

    target: TorchTarget
    kept: ReusableText | None = None

    def open(self) -> None:
        self.target.reuse_prefix()
        super().open()

    def close(self, failed: bool = False) -> None:
        if not self.closed:
            self.kept = self.target.reusable_text()
        super().close(failed)


def first_turn(target: TorchTarget) -> tuple[list[int], ReusableText]:
    """Answer the prompt with trees; return the text and its reusable part."""
    request = Request(PROMPT, method="ddtree", budget=6, max_tokens=12)
    run = KeptRun(request, target.fork(), [FallibleDrafter(PROMPT, (3, 4, 5))])
    return text(run.rounds()), run.kept or NO_TEXT


def read(target: TorchTarget, prompt: tuple[int, ...], kept: ReusableText = NO_TEXT) -> tuple[Any, ...]:
    """Prefill a prompt; return the state that it leaves and the number of tokens from the cache."""
    fork = target.fork()
    fork.reuse_prefix(kept)
    root, features = fork.prefill(prompt, 8, Sampling())
    slots = fork._open_cache.first_slots(len(prompt))
    return root, fork._output.logits, features, slots, fork.cached_tokens


@pytest.mark.parametrize("kind", ["int4", "fused", *LAYERED, *RECURRENT])
def test_the_next_turn_has_the_same_bits_as_without_a_cache(kind: str) -> None:
    target = target_of(kind)
    answer, kept = first_turn(target)
    edited = (*PROMPT[:12], 60, *PROMPT[13:])
    for prompt, in_int4, otherwise in ((*PROMPT, *answer, *MORE), 33, 16), (edited, 12, 8), (PROMPT, 20, 16):
        anew = read(target, prompt)
        again = read(target, prompt, kept)
        torch.testing.assert_close(again[:-1], anew[:-1], rtol=0, atol=0)
        assert anew[-1] == 0
        assert again[-1] == (in_int4 if kind == "int4" else 0 if kind in RECURRENT else otherwise)


@pytest.mark.parametrize("kind", ["fused", *LAYERED])
def test_a_prefill_in_passes_equals_a_single_pass(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, prompt = target_of(kind), (*PROMPT, *MORE)
    in_passes = read(target, prompt)
    monkeypatch.setattr(target_module, "PREFILL_ROWS", 64)
    torch.testing.assert_close(read(target, prompt)[:-1], in_passes[:-1], rtol=1e-3, atol=1e-4)


def test_few_texts_are_kept_by_key_and_none_if_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    target = small_target()
    _, kept = first_turn(target)
    assert kept.token_ids.tolist() == list(PROMPT[:16])
    texts = ReusableTexts(target, 3 * kept.nbytes)
    variants = [kept._replace(token_ids=kept.token_ids + number) for number in range(5)]
    for variant in variants:
        texts.add("one", variant)

    def kept_variants(cache_key: str = "one") -> list[int]:
        prompts = [[*variant.token_ids.tolist(), 1] for variant in variants]
        return [number for number, prompt in enumerate(prompts)
                if target.reusable_tokens(texts.best(cache_key, prompt), prompt)]

    assert kept_variants() == [2, 3, 4] and not kept_variants("another")
    longer = variants[4]._replace(token_ids=np.append(variants[4].token_ids, 7))
    texts.add("one", longer)
    assert kept_variants() == [2, 3, 4] and len(texts.best("one", longer.token_ids.tolist()).token_ids) == 17
    monkeypatch.setattr(reusable_texts, "unused_bytes", lambda device: 10)
    texts.make_room(5)
    assert kept_variants()
    texts.make_room(50)
    assert not kept_variants()
