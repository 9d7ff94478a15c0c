"""The engine makes the same rounds as the one-page reference algorithm."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from engine import reference
from engine.decoding.methods import METHODS
from engine.records import Floats, Request, Sampling
from tests.engine.helpers import ancestors, decode
from tests.engine.toy import ToyDrafter, ToyTarget

POINTS = [(method, split) for method, row in METHODS.items() for split in row.splits if row.replayable]


def drafting(drafter: ToyDrafter) -> Callable[[Sequence[int]], Floats]:
    return lambda text: drafter._blurred(drafter.target.context(text))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("budget", [0, 1, 7, 40])
@pytest.mark.parametrize(("method", "split"), POINTS)
def test_every_round_equals_that_of_the_reference(method: str, split: str, budget: int, temperature: float) -> None:
    toy = ToyTarget(seed=3, context_limit=60)
    drafters = [ToyDrafter(toy, noise=0.3, seed=1), ToyDrafter(toy, noise=0.5, seed=2)]
    drafters = drafters[:METHODS[method].drafter_count]
    for number, (stop, limit) in enumerate((((), 40), ((5,), 90), ((2, 6), 23))):
        request = Request((1, 2, number), method=method, split=split, budget=budget, max_tokens=limit,
                          stop_ids=frozenset(stop), sampling=Sampling(temperature, seed=number))
        rounds = list(decode(request, toy, drafters))
        steps = list(reference.generate(lambda text: toy.table[toy.context(text)], list(map(drafting, drafters)),
                                        request, toy.context_limit))
        assert len(steps) == len(rounds) and (rounds or stop)
        for round_, step in zip(rounds, steps, strict=True):
            tree, kept = round_.tree, round_.acceptance
            assert [tree.tokens.tolist(), tree.parents.tolist(), tree.drafters.tolist(), kept.keep.tolist(), kept.bonus
                    ] == [step.tree.tokens, step.tree.parents, step.tree.drafters, step.keep, step.bonus]
            np.testing.assert_allclose(tree.logprobs, step.tree.scores, atol=1e-6)
            assert np.array_equal(ancestors(tree.parents), reference.tree_mask(step.tree))
