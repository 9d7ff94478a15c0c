"""The engine makes the very rounds of the algorithm that is written down from top to bottom."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from engine import reference
from engine.decoding.loop import decode
from engine.records import Floats, Request, Sampling
from tests.engine.material import ancestors
from tests.engine.toy import ToyDrafter, ToyTarget

POINTS = (("autoregressive", "total"), ("dflash", "total"), ("ddtree", "total"), ("routed", "total"),
          ("merged", "total"), ("merged", "each"), ("joint", "total"))


def as_function(toy: ToyTarget) -> reference.Target:
    return lambda seen: toy.table[toy.context(seen)]


def drafting(drafter: ToyDrafter) -> Callable[[Sequence[int]], Floats]:
    return lambda text: drafter._blurred(drafter.target.context(text))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("budget", [0, 1, 7, 40])
@pytest.mark.parametrize(("method", "split"), POINTS)
def test_every_round_is_the_references(method: str, split: str, budget: int, temperature: float) -> None:
    toy = ToyTarget(seed=3, context_limit=60)
    drafters = [ToyDrafter(toy, noise=0.3, seed=1), ToyDrafter(toy, noise=0.5, seed=2)]
    drafters = drafters[:{"autoregressive": 0, "dflash": 1, "ddtree": 1}.get(method, 2)]
    for place, stop in enumerate(((), (5,), (2, 6))):
        prompt, most = (1, 2, place), (40, 90, 23)[place]
        request = Request(prompt, method=method, split=split, budget=budget, max_tokens=most, stop_ids=frozenset(stop),
                          sampling=Sampling(temperature, seed=place))
        rounds = list(decode(request, toy, drafters))
        steps = list(reference.generate(
            as_function(toy), [drafting(drafter) for drafter in drafters], request, toy.context_limit))
        assert len(steps) == len(rounds) and (rounds or stop)
        for made, step in zip(rounds, steps, strict=True):
            assert made.tree.tokens.tolist() == step.tree.tokens and made.tree.parents.tolist() == step.tree.parents
            np.testing.assert_allclose(made.tree.logprobs, step.tree.scores, atol=1e-6)
            assert made.tree.drafters.tolist() == step.tree.drafters
            assert (made.acceptance.keep.tolist(), made.acceptance.bonus) == (step.keep, step.bonus)
            assert np.array_equal(ancestors(made.tree.parents), reference.tree_mask(step.tree))
