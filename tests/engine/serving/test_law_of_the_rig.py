"""The law of the demo rig's first three tokens at temperature 0.8 with top-p 0.95, against exact enumeration.

Method and error rate as in test_law.py. CANOPY_LAW_TEXTS sets the texts per method: 200 here, 2,000 by hand. One method
of each lossless acceptance rule is in every run, the others in the long one.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import torch

from engine.decoding.loop import decode
from engine.models.sampling import processed
from engine.records import PromptRequest, Sampling
from engine.trace import committed_ids
from tests.engine.decoding.test_law import ERROR_RATE, chance_of_more
from tests.engine.demo import demo_live, demo_rig

TEXTS = int(os.environ.get("CANOPY_LAW_TEXTS", "200"))
LENGTH = 3
SAMPLING = Sampling(0.8, 0, 0.95)
PROMPT = "Please explain speedups. Thank you!"

Text = tuple[int, ...]


@lru_cache(maxsize=1)
@torch.inference_mode()
def exact_law() -> dict[Text, float]:
    """Every text of three tokens (or fewer, where it stops) with its probability."""
    live, rig = demo_live(), demo_rig()
    request = live.request(PromptRequest(PROMPT))
    open_texts: dict[Text, float] = {(): 1.0}
    ended: dict[Text, float] = {}
    for _ in range(LENGTH):
        longer: dict[Text, float] = {}
        for text, chance in open_texts.items():
            logits = rig.target.model(input_ids=torch.tensor([[*request.prompt_ids, *text]])).logits[0, -1:].float()
            law = processed(logits, SAMPLING)[0].exp()
            for token in law.nonzero()[:, 0].tolist():
                where = ended if token in request.stop_ids else longer
                key = text if token in request.stop_ids else (*text, token)
                where[key] = where.get(key, 0.0) + chance * float(law[token])
        open_texts = longer
    return {**open_texts, **ended}


def drawn_texts(method: str, budget: int) -> list[Text]:
    """One text a seed."""
    live, rig = demo_live(), demo_rig()
    drafters = list(rig.drafters_for(method).values())
    texts = []
    for seed in range(TEXTS):
        request = live.request(PromptRequest(PROMPT, method=method, budget=budget, max_tokens=LENGTH,
                                   sampling=replace(SAMPLING, seed=seed)))
        texts.append(tuple(committed_ids(decode(request, rig.target, drafters))))
    return texts


@pytest.mark.parametrize(("method", "budget"), [
    ("joint", 12), ("nanogpt", 14),
    *(pytest.param(*point, marks=pytest.mark.long) for point in (
        ("autoregressive", 0), ("dflash", 4), ("ddtree", 12), ("routed", 12), ("merged", 12)))])
def test_the_first_three_tokens_follow_the_targets_law(method: str, budget: int) -> None:
    law = exact_law()
    assert len(law) > 4 and abs(sum(law.values()) - 1) < 1e-4
    places = {text: place for place, text in enumerate(law)}
    counts = np.zeros(len(law))
    for text in drawn_texts(method, budget):
        counts[places[text]] += 1  # KeyError: a text that the target cannot write
    chances = np.asarray(list(law.values()))
    assert chance_of_more(counts, chances / chances.sum()) > ERROR_RATE
