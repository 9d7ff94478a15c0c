"""The likeliest tokens of large vocabularies: those that a look at every token finds."""

from __future__ import annotations

import pytest
import torch

from engine.drafters.dflash import marginals
from engine.drafters.dflash.marginals import BLOCK, LARGE, likeliest_tokens

WIDTH = 6


@pytest.mark.parametrize("vocabulary", [LARGE * WIDTH, LARGE * WIDTH + 1, LARGE * WIDTH + BLOCK - 1, 49_152])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_first_finds_what_a_look_at_all_finds(
        vocabulary: int, dtype: torch.dtype) -> None:
    logits = (torch.randn(5, vocabulary, generator=torch.Generator().manual_seed(vocabulary)) * 3).to(dtype)
    logits[0, -WIDTH:] = 30 + torch.arange(WIDTH)  # in what is left over, where blocks do not come out even
    logits[1, :BLOCK * WIDTH] = 25  # more equals than are wanted
    logits[2, ::vocabulary // BLOCK] = 25  # all in one block
    logprobs, tokens = likeliest_tokens(logits, WIDTH)
    every = logits.log_softmax(-1, torch.float32)
    assert torch.equal(logprobs, every.topk(WIDTH, -1).values)
    assert torch.equal(every.gather(-1, tokens), logprobs)
    assert all(len(set(row)) == WIDTH for row in tokens.tolist())


def test_a_small_vocabulary_is_looked_at_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals, "_among_the_best_blocks", None)
    assert likeliest_tokens(torch.zeros(2, LARGE * WIDTH - 1), WIDTH)[0].shape == (2, WIDTH)
    assert likeliest_tokens(torch.zeros(2, 3), WIDTH)[0].shape == (2, 3)
