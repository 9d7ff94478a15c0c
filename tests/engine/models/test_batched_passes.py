"""One pass over several texts is a pass over each: the demo rig's target and drafters, in float32."""

from collections.abc import Sequence

import numpy as np
import pytest

from engine.decoding.loop import decode_batch
from engine.decoding.protocols import BatchDrafter
from engine.models.passes import PassOutput
from engine.models.rows import PassPart
from engine.records import PromptRequest, Sampling
from tests.engine.demo import demo_live, demo_rig
from tests.engine.material import text

ASKS = (
    PromptRequest("Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?",
        method="ddtree", budget=16, max_tokens=40),
    PromptRequest("Write a Python function that doubles every number of a list.", method="routed", budget=31,
                  max_tokens=40),
    PromptRequest("What is speculative decoding?", method="autoregressive", budget=0, max_tokens=25),
    PromptRequest("Mia buys 3 pens for 2 dollars each. What does she pay?", method="merged", budget=24, max_tokens=40,
        sampling=Sampling(0.8, 0, 0.95, 3)),
    PromptRequest("What is a node budget?", method="joint", budget=7, max_tokens=30),
    PromptRequest("Lea has 12 cards and gives away 5. How many are left?", method="expand", budget=12, max_tokens=30,
        drafters=("small",)),
    PromptRequest("What is a draft tree?", method="nanogpt", budget=9, max_tokens=30),
    PromptRequest("What is the root?", method="dflash", budget=15, max_tokens=30),
)


def texts_at(concurrency: int, asks: Sequence[PromptRequest]) -> list[list[int]]:
    """The text of each request, in one loop with so many at once."""
    texts = [list[int]() for _ in asks]
    for number, round_ in decode_batch(map(demo_live().prepare, asks), concurrency):
        texts[number] += round_.committed.tolist()
    return texts


def test_texts_of_all_methods_at_once_equal_those_alone() -> None:
    alone = [text(demo_live().prepare(ask).rounds()) for ask in ASKS]
    for concurrency in (3, 8):
        assert texts_at(concurrency, ASKS) == alone


def test_the_passes_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[list[int]] = []
    fused = demo_live().target.fastest
    forward = fused.forward  # of the object: a benchmark in the same process may have wrapped it

    def counted(parts: Sequence[PassPart]) -> list[PassOutput]:
        rows.append([len(part.rows.tokens) for part in parts])
        return list(forward(parts))

    monkeypatch.setattr(fused, "forward", counted)
    texts_at(2, ASKS[:2])
    texts = [len(parts) for parts in rows]
    assert texts == sorted(texts, reverse=True) and set(texts) == {1, 2}, "two until the shorter text ends"
    assert all(sum(parts) > 2 for parts in rows if len(parts) == 2)


def test_a_block_drafted_beside_others_is_the_block() -> None:
    drafter = demo_rig().drafters["math"]
    assert isinstance(drafter, BatchDrafter)
    target, forks = demo_rig().target, [drafter.fork() for _ in range(3)]
    for length, fork in zip((5, 40, 17), forks, strict=True):
        prompt = np.arange(length, dtype=np.int32) + 7
        _, features = target.prefill(prompt.tolist(), 1, Sampling())
        fork.begin(length + 1)
        fork.observe(prompt, features)
    target.release()
    batch = drafter.draft_batch(forks, [3, 9, 27], [4, 8, 16])
    for lattice, fork, root, width in zip(batch, forks, (3, 9, 27), (4, 8, 16), strict=True):
        single = fork.draft(root, width)
        np.testing.assert_array_equal(lattice.tokens, single.tokens)
        np.testing.assert_allclose(lattice.logprobs, single.logprobs, atol=2e-5)
