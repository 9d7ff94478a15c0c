"""One pass over several texts is a pass over each: the demo rig's target and drafters, in float32."""

from collections.abc import Sequence

import numpy as np
import pytest

from engine.decoding.loop import BatchRequest, decode, decode_batch
from engine.decoding.plan import BatchDrafter, JointTarget
from engine.models.passes import FusedPass, PassOutput, PassPart
from engine.records import PromptRequest, Sampling
from engine.serving.rig import Rig
from engine.trace import committed_ids
from tests.engine.demo import demo_live, demo_rig

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


def asked(live: Rig, ask: PromptRequest) -> BatchRequest:
    return BatchRequest(live.request(ask), list(demo_rig().drafters_for(ask.method, ask.drafters).values()))


@pytest.fixture(scope="module")
def alone() -> list[list[int]]:
    live = demo_live()
    found = []
    for ask in ASKS:
        one = asked(live, ask)
        found.append(committed_ids(decode(one.request, demo_rig().target, one.drafters)))
    return found


@pytest.mark.parametrize("concurrency", [2, 5, 8])
def test_texts_of_all_methods_at_once_equal_those_alone(alone: list[list[int]], concurrency: int) -> None:
    live = demo_live()
    assert isinstance(demo_rig().target, JointTarget)
    made = list(decode_batch([asked(live, ask) for ask in ASKS], demo_rig().target, concurrency))
    found = [committed_ids(each for number, each in made if number == place) for place in range(len(ASKS))]
    assert found == alone


def test_the_passes_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    live = demo_live()
    passes: list[int] = []
    rows: list[int] = []
    own = FusedPass.forward

    def counted(self: FusedPass, parts: Sequence[PassPart]) -> list[PassOutput]:
        passes.append(len(parts))
        rows.append(sum(len(part.tokens) for part in parts))
        return own(self, parts)

    monkeypatch.setattr(FusedPass, "forward", counted)
    made = list(decode_batch([asked(live, ASKS[0]), asked(live, ASKS[1])], demo_rig().target, 2))
    both = min(sum(number == place for number, _ in made) for place in range(2))
    assert passes[:both] == [2] * both and set(passes[both:]) <= {1} and min(rows[:both]) > 2


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
