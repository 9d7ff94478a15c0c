"""A prompt that begins with the cache of an earlier text has the bits of one that is read anew."""

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
from tests.engine.material import text
from tests.engine.models.shrunk import HalfKnowing, shrunk
from tests.engine.models.test_packed_linear import target_of_four_bits
from tests.engine.small import TAPS, small_target

ROWS = 8  # of a pass over a prompt here
PROMPT, MORE = tuple(range(5, 26)), tuple(range(30, 41))  # two full passes and a part of one, and the next turn
# Windows, chunks, latent attention, chosen keys, shared keys and values.
LAYERED = ("gemma3_text", "llama4_text", "deepseek_v3", "deepseek_v32", "gemma3n_text")
RECURRENT = ("qwen3_5_text", "bamba")


@pytest.fixture(autouse=True)
def _passes_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "PREFILL_ROWS", ROWS)
    monkeypatch.setattr(target_module, "INT4_PREFILL_ROWS", ROWS)


def target_of(kind: str) -> TorchTarget:
    if kind == "int4":
        return target_of_four_bits(taps=TAPS)
    return small_target() if kind == "fused" else TorchTarget(shrunk(kind), ())


class KeptRun(DecodeRun):
    """A run whose text can be reused."""

    target: TorchTarget
    kept: ReusableText | None = None

    def open(self) -> None:
        self.target.begin_with()
        super().open()

    def close(self, failed: bool = False) -> None:
        if not self.closed:
            self.kept = self.target.reusable_text()
        super().close(failed)


def first_turn(target: TorchTarget) -> tuple[list[int], ReusableText]:
    """Answer the prompt with trees; return the text and its reusable part."""
    request = Request(PROMPT, method="ddtree", budget=6, max_tokens=12)
    run = KeptRun(request, target.fork(), [HalfKnowing(PROMPT, (3, 4, 5))])
    return text(run.rounds()), run.kept or NO_TEXT


def read(target: TorchTarget, prompt: tuple[int, ...], kept: ReusableText = NO_TEXT) -> tuple[Any, ...]:
    """What a prompt leaves behind, and how much of it was not read."""
    fork = target.fork()
    fork.begin_with(kept)
    root, features = fork.prefill(prompt, 8, Sampling())
    slots = fork._open_cache.first_slots(len(prompt))
    return root, fork._output.logits, features, slots, fork.cached_tokens


@pytest.mark.parametrize("kind", ["int4", "fused", *LAYERED, *RECURRENT])
def test_the_next_turn_has_the_bits_of_reading_it_anew(kind: str) -> None:
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
def test_reading_in_passes_is_reading_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, prompt = target_of(kind), (*PROMPT, *MORE)
    in_passes = read(target, prompt)
    monkeypatch.setattr(target_module, "PREFILL_ROWS", 64)
    torch.testing.assert_close(read(target, prompt)[:-1], in_passes[:-1], rtol=1e-3, atol=1e-4)


def test_few_texts_are_kept_each_for_who_asked_and_none_if_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    target = small_target()
    _, kept = first_turn(target)
    assert kept.token_ids.tolist() == list(PROMPT[:16])
    texts = ReusableTexts(target, 3 * kept.nbytes)
    variants = [kept._replace(token_ids=kept.token_ids + number) for number in range(5)]
    for variant in variants:
        texts.add("one", variant)

    def known(cache_key: str = "one") -> list[int]:
        prompts = [[*variant.token_ids.tolist(), 1] for variant in variants]
        return [number for number, prompt in enumerate(prompts)
                if target.reusable_tokens(texts.best(cache_key, prompt), prompt)]

    assert known() == [2, 3, 4] and not known("another")
    longer = variants[4]._replace(token_ids=np.append(variants[4].token_ids, 7))
    texts.add("one", longer)
    assert known() == [2, 3, 4] and len(texts.best("one", longer.token_ids.tolist()).token_ids) == 17
    monkeypatch.setattr(reusable_texts, "unused_bytes", lambda device: 10)
    texts.make_room(5)
    assert known()
    texts.make_room(50)
    assert not known()
