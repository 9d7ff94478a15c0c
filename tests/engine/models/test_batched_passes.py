"""One pass serves several texts, and one draft several blocks, of the demo rig in float32. Each text is compared with
that of a lone run in tests/engine/serving/test_auto_runs.py."""

from collections.abc import Sequence

import numpy as np
import pytest

from engine.decoding.loop import decode_batch
from engine.decoding.protocols import BatchDrafter
from engine.models.passes import PassOutput
from engine.models.rows import PassPart
from engine.records import PromptRequest, Sampling
from tests.engine.demo import demo_live, demo_rig

ASKS = (
    PromptRequest("Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?",
        method="ddtree", budget=16, max_tokens=40),
    PromptRequest("Write a Python function that doubles every number of a list.", method="routed", budget=31,
                  max_tokens=40))


def test_concurrent_runs_share_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[list[int]] = []
    fused = demo_live().target.fastest
    forward = fused.forward  # of the object: a benchmark in the same process may have wrapped it

    def counted(parts: Sequence[PassPart]) -> list[PassOutput]:
        rows.append([len(part.rows.tokens) for part in parts])
        return list(forward(parts))

    monkeypatch.setattr(fused, "forward", counted)
    list(decode_batch(map(demo_live().prepare, ASKS), 2))
    texts = [len(parts) for parts in rows]
    assert texts == sorted(texts, reverse=True) and set(texts) == {1, 2}, "shared passes until the shorter text ends"
    assert all(sum(parts) > 2 for parts in rows if len(parts) == 2)


def test_a_block_drafted_in_a_batch_equals_the_block_alone() -> None:
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
