"""The loop: equal texts, exact ends, released caches, and a sentence for every request that cannot be served."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from engine.decoding.methods import METHODS
from engine.decoding.tree import depths
from engine.errors import RequestError
from engine.records import STAGES, Lattice, Request, Sampling
from tests.engine.helpers import GREEDY, LOSSLESS, WALKING, WARM, decode, drafters_of, plain_text, run, text, text_of
from tests.engine.toy import ToyDrafter, ToyTarget

PROMPT = (1, 2, 3, 1, 2)


@pytest.fixture
def target() -> ToyTarget:
    return ToyTarget(seed=2)


@pytest.mark.parametrize("budget", [0, 1, 7, 15, 64, 256])
@pytest.mark.parametrize("method", LOSSLESS)
def test_every_lossless_method_writes_the_autoregressive_text(
        target: ToyTarget, method: str, budget: int) -> None:
    samplings = (GREEDY, WARM, Sampling(temperature=1.6, seed=8)) if method in WALKING else (GREEDY,)
    for sampling, split in product(samplings, METHODS[method].splits):
        request = Request(PROMPT, method=method, budget=budget, max_tokens=60, sampling=sampling, split=split)
        assert text_of(request, target, drafters_of(method, target)) == plain_text(request, target)


def test_top_k_1_is_greedy_at_any_temperature(target: ToyTarget) -> None:
    for method in METHODS:
        warm = Request(PROMPT, method=method, budget=15, max_tokens=40, sampling=Sampling(temperature=1.0, top_k=1))
        assert text_of(warm, target, drafters_of(method, target)) == plain_text(Request(PROMPT), target)[:40]


@pytest.mark.parametrize("method", list(METHODS))
def test_each_round_starts_at_the_end_of_the_last(target: ToyTarget, method: str) -> None:
    for split in METHODS[method].splits:
        request = Request(PROMPT, method=method, budget=9, max_tokens=50, sampling=WARM, split=split)
        start, root = len(PROMPT), None
        for index, round_ in enumerate(run(request, target, drafters_of(method, target))):
            tree, drafter_count = round_.tree, len(round_.drafts)
            assert (round_.index, round_.start) == (index, start) and root in (None, tree.tokens[0])
            assert len(tree) - 1 <= 9 * (drafter_count if split == "each" else 1)
            assert len(round_.candidates) == drafter_count
            assert round_.scores == tuple(candidate.confidence for candidate in round_.candidates)
            assert {len(values) for values in vars(round_.verification).values()} == {len(tree)}
            assert round_.committed.tolist() == tree.tokens[round_.acceptance.keep].tolist()
            assert set(round_.seconds) == set(STAGES) and min(round_.seconds.values()) >= 0
            start, root = start + len(round_.acceptance.keep), round_.acceptance.bonus


@pytest.mark.parametrize("method", LOSSLESS)
def test_a_stop_token_anywhere_ends_the_text_before_it(target: ToyTarget, method: str) -> None:
    from_the_end = set()  # 1 is the round's bonus token, 2 its last kept token, …
    samplings = (GREEDY, *(Sampling(1.0, seed=seed) for seed in range(3)))
    for sampling, budget in product(samplings, (0, 3, 40)):
        request = Request(PROMPT, method=method, budget=budget, max_tokens=40, sampling=sampling)
        whole = run(request, target, drafters_of(method, target))
        ids = text(whole)
        for stop in range(8):
            rounds = run(replace(request, stop_ids=frozenset([stop])), target, drafters_of(method, target))
            assert text(rounds) == ids[:ids.index(stop) if stop in ids else len(ids)]
            if rounds and stop in ids:
                assert rounds[-1].acceptance.bonus == stop
                last = whole[len(rounds) - 1]
                uncut = [*last.committed.tolist(), last.acceptance.bonus]
                from_the_end.add(len(uncut) - uncut.index(stop))
    assert {1, 2, 4} <= from_the_end or method == "autoregressive"


@pytest.mark.parametrize("room", [1, 2, 3, 7])
@pytest.mark.parametrize("method", LOSSLESS)
def test_no_node_lies_beyond_the_context(method: str, room: int) -> None:
    target = ToyTarget(context_limit=24, seed=2)
    prompt = tuple(np.random.default_rng(0).integers(0, 8, 24 - room).tolist())
    request = Request(prompt, method=method, budget=64, max_tokens=100)
    rounds = run(request, target, drafters_of(method, target, depth=15))
    assert text(rounds) == plain_text(request, target) and len(text(rounds)) == room
    for round_ in rounds:
        assert round_.start + depths(round_.tree.parents).max() < 24
        assert all(draft.depth <= 23 - round_.start for draft in round_.drafts)


@pytest.mark.parametrize(("wrong", "seen", "allowed"), [  # tests/explorer/test_options.py has all options' bounds
    ({"method": "best"}, "'best'", "ddtree"), ({"method": "merged", "split": "both"}, "'both'", "total, each"),
    ({"budget": 10**6}, "1000000", "4096"), ({"max_tokens": 0}, "0", "1"),
    ({"prompt_ids": ()}, "prompt", "one"), ({"prompt_ids": (1,) * 128}, "128", "127"),
    ({"sampling": Sampling(temperature=math.nan)}, "nan", "0.01 to 100"),
    ({"sampling": Sampling(top_k=-2)}, "-2", "0"), ({"sampling": Sampling(top_p=1.5)}, "1.5", "1")])
def test_a_request_that_cannot_be_served_is_refused_before_anything_is_drafted(
        wrong: dict[str, Any], seen: str, allowed: str) -> None:
    target = ToyTarget()
    with pytest.raises(RequestError) as refusal:
        decode(replace(Request(PROMPT), **wrong), target, drafters_of("merged", target))
    assert target.text == []
    assert seen in str(refusal.value) and allowed in str(refusal.value)


def test_too_few_drafters_are_refused() -> None:
    with pytest.raises(RequestError, match="joint.* 2 .* 1"):
        decode(Request(PROMPT, method="joint"), ToyTarget(), [ToyDrafter(ToyTarget())])


class Broken(ToyDrafter):
    """Fail in the second draft."""

    drafts = 0

    def draft(self, root: int, width: int) -> Lattice:
        self.drafts += 1
        if self.drafts > 1:
            raise RuntimeError("no memory")
        return super().draft(root, width)


@pytest.mark.parametrize("ends", ["closed", "done", "broken"])
@pytest.mark.parametrize("method", ["autoregressive", "ddtree", "joint"])
def test_a_run_that_is_closed_or_fails_releases_everything_once(target: ToyTarget, method: str, ends: str) -> None:
    drafters = [(Broken if ends == "broken" else ToyDrafter)(target, seed=seed)
                for seed in range(METHODS[method].drafter_count)]
    rounds = decode(Request(PROMPT, method=method, budget=7, max_tokens=12), target, drafters)
    next(rounds)
    assert target.released == 0
    if ends == "closed":
        rounds.close()
    elif ends == "done" or not drafters:
        assert len(list(rounds)) > 0
    else:
        with pytest.raises(RuntimeError, match="no memory"):
            next(rounds)
    assert [target.released, *(drafter.released for drafter in drafters)] == [1] * (1 + len(drafters))
    assert target.text == []
