"""The loop: equal text, exact ends, clean releases, and a sentence for every request that cannot be served."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.decoding.loop import decode
from engine.decoding.methods import METHODS
from engine.decoding.tree import depths
from engine.errors import RequestError
from engine.records import STAGES, Request, Round, Sampling
from tests.engine.material import GREEDY, LOSSLESS, WALKING, WARM, drafters_of, run, text
from tests.engine.toy import ToyDrafter, ToyTarget

PROMPT = (1, 2, 3, 1, 2)
BUDGETS = (0, 1, 7, 15, 64, 256)


def plain(target: ToyTarget, request: Request) -> list[int]:
    """The text of autoregressive decoding."""
    return text(run(replace(request, method="autoregressive"), target, []))


def splits(method: str) -> list[str]:
    """What the budget may mean for a method."""
    return ["total", "each"] if METHODS[method].combine == "merged" else ["total"]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("method", LOSSLESS)
def test_at_temperature_0_the_text_is_the_autoregressive_one(method: str, budget: int) -> None:
    target = ToyTarget(seed=2)
    for split in splits(method):
        request = Request(PROMPT, method=method, budget=budget, max_tokens=60, sampling=GREEDY, split=split)
        assert text(run(request, target, drafters_of(method, target))) == plain(target, request)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("method", WALKING)
def test_shared_draws_make_the_walking_methods_equal_at_any_temperature(method: str, budget: int) -> None:
    target = ToyTarget(seed=2)
    for sampling in (WARM, Sampling(temperature=1.6, seed=8)):
        request = Request(PROMPT, method=method, budget=budget, max_tokens=60, sampling=sampling)
        assert text(run(request, target, drafters_of(method, target))) == plain(target, request)


def test_top_k_1_is_greedy_at_any_temperature() -> None:
    target = ToyTarget(seed=2)
    for method in METHODS:
        warm = Request(PROMPT, method=method, budget=15, max_tokens=40, sampling=Sampling(temperature=1.0, top_k=1))
        assert text(run(warm, target, drafters_of(method, target))) == plain(target, Request(PROMPT))[:40]


@pytest.mark.parametrize("method", LOSSLESS)
def test_drafting_saves_passes(method: str) -> None:
    target = ToyTarget(seed=2)
    rounds = run(Request(PROMPT, method=method, budget=31, max_tokens=60,
                         sampling=GREEDY), target, drafters_of(method, target))
    assert len(rounds) == 60 if method == "autoregressive" else len(rounds) < 30


def check_round(made: Round, budget: int, split: str) -> None:
    """What every round promises."""
    drafters = len(made.drafts)
    drafted = len(made.tree) - 1
    assert drafted <= budget * (drafters if split == "each" else 1)
    assert len(made.candidates) == len(made.scores) == drafters
    assert made.scores == tuple(tree.confidence for tree in made.candidates)
    size = len(made.tree)
    said = made.verification
    assert {len(values) for values in vars(said).values()} == {size}
    assert made.committed.tolist() == made.tree.tokens[made.acceptance.keep].tolist()
    assert set(made.seconds) == set(STAGES)
    assert all(seconds >= 0 for seconds in made.seconds.values())


@pytest.mark.parametrize("method", list(METHODS))
def test_rounds_follow_one_another(method: str) -> None:
    target = ToyTarget(seed=2)
    for split in splits(method):
        rounds = run(Request(PROMPT, method=method, budget=9, max_tokens=50, sampling=WARM,
                             split=split), target, drafters_of(method, target))
        start = len(PROMPT)
        for index, made in enumerate(rounds):
            assert (made.index, made.start) == (index, start)
            check_round(made, 9, split)
            start += len(made.acceptance.keep)
            if index:
                assert made.tree.tokens[0] == rounds[index - 1].acceptance.bonus


def test_routing_records_the_losing_drafter_too() -> None:
    target = ToyTarget(seed=2)
    winners = set()
    for made in run(Request(PROMPT, method="routed", budget=9, max_tokens=60,
                            sampling=WARM), target, drafters_of("routed", target)):
        winner = int(made.tree.drafters[1]) - 1
        assert made.scores[winner] == max(made.scores)
        assert made.tree.tokens.tolist() == made.candidates[winner].tokens.tolist()
        winners.add(winner)
    assert winners == {0, 1}


def test_merged_shares_the_budget_or_gives_it_to_both() -> None:
    target = ToyTarget(seed=2)
    for split, sizes in (("total", [4, 3]), ("each", [7, 7])):
        made = run(Request(PROMPT, method="merged", budget=7, max_tokens=1,
                           split=split), target, drafters_of("merged", target))[0]
        assert [len(tree) - 1 for tree in made.candidates] == sizes
        assert len(made.tree) - 1 == sum(sizes)


@pytest.mark.parametrize("stop", range(8))
@pytest.mark.parametrize("method", LOSSLESS)
def test_a_stop_token_anywhere_ends_the_text_before_it(method: str, stop: int) -> None:
    target = ToyTarget(seed=2)
    for seed in range(2):
        whole = plain(target, Request(PROMPT, max_tokens=40, sampling=Sampling(seed=seed)))
        ends = whole.index(stop) if stop in whole else len(whole)
        for budget in (0, 3, 30):
            request = Request(PROMPT, method=method, budget=budget, max_tokens=40, sampling=Sampling(seed=seed),
                              stop_ids=frozenset([stop]))
            rounds = run(request, target, drafters_of(method, target))
            assert text(rounds) == whole[:ends]
            if rounds and ends < 40:
                assert rounds[-1].acceptance.bonus == stop


def test_stop_tokens_are_met_at_every_place_of_a_kept_path() -> None:
    target, places = ToyTarget(seed=2), set()
    for stop in range(8):
        for seed in range(5):
            request = Request(PROMPT, method="ddtree", budget=40, max_tokens=40, sampling=Sampling(1.0, seed=seed),
                              stop_ids=frozenset([stop]))
            drafters = drafters_of("ddtree", target)
            whole = run(replace(request, stop_ids=frozenset()), target, drafters)
            rounds = run(request, target, drafters)
            assert stop not in text(rounds)
            if rounds and stop in text(whole):
                last = whole[len(rounds) - 1]
                uncut = [*last.committed.tolist(), last.acceptance.bonus]
                places.add(len(uncut) - uncut.index(stop))
    assert {1, 2, 3, 4} <= places  # 1: the bonus itself, 2: the last kept token, …


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("method", LOSSLESS)
def test_max_tokens_is_exact(method: str, most: int) -> None:
    target = ToyTarget(seed=2)
    request = Request(PROMPT, method=method, budget=20, max_tokens=most)
    wanted = plain(target, replace(request, max_tokens=20))[:most]
    assert text(run(request, target, drafters_of(method, target))) == wanted


@pytest.mark.parametrize("room", [1, 2, 3, 7])
@pytest.mark.parametrize("method", LOSSLESS)
def test_no_node_lies_beyond_the_context(method: str, room: int) -> None:
    target = ToyTarget(context_limit=24, seed=2)
    prompt = tuple(np.random.default_rng(0).integers(0, 8, 24 - room).tolist())
    request = Request(prompt, method=method, budget=64, max_tokens=100)
    rounds = run(request, target, drafters_of(method, target, depth=15))
    assert text(rounds) == plain(target, request)
    assert len(text(rounds)) == room
    for made in rounds:
        assert made.start + depths(made.tree.parents).max() < 24
        assert all(draft.depth <= 23 - made.start for draft in made.drafts)


def refused(request: Request, drafters: int = 2) -> str:
    """The sentence that a request is refused with, before anything was drafted."""
    target = ToyTarget()
    with pytest.raises(RequestError) as refusal:
        decode(request, target, [ToyDrafter(target)] * drafters)
    assert target.text == []
    return str(refusal.value)


@pytest.mark.parametrize(("wrong", "seen", "allowed"), [
    ({"method": "best"}, "'best'", "ddtree"),
    ({"budget": -1}, "-1", "from 0 to 4096"),
    ({"budget": 10**6}, "1000000", "from 0 to 4096"),
    ({"max_tokens": 0}, "0", "from 1 to"),
    ({"prompt_ids": ()}, "empty", "at least one"),
    ({"prompt_ids": (1,) * 128}, "128 tokens", "at most 127"),
    ({"split": "half"}, "'half'", "total"),
    ({"method": "merged", "split": "both"}, "'both'", "total, each"),
    ({"sampling": Sampling(temperature=-0.5)}, "-0.5", "0 or a number from 0.01 to 100"),
    ({"sampling": Sampling(temperature=math.nan)}, "nan", "0 or a number from 0.01 to 100"),
    ({"sampling": Sampling(temperature=1e-40)}, "1e-40", "0 or a number from 0.01 to 100"),
    ({"sampling": Sampling(temperature=math.inf)}, "inf", "0 or a number from 0.01 to 100"),
    ({"sampling": Sampling(top_k=-2)}, "-2", "from 0 to"),
    ({"sampling": Sampling(top_p=0.0)}, "0.0", "at most 1"),
    ({"sampling": Sampling(top_p=1.5)}, "1.5", "at most 1"),
    ({"sampling": Sampling(seed=-1)}, "-1", "from 0 to"),
])
def test_a_request_that_cannot_be_served_is_refused_in_a_sentence(
        wrong: dict[str, Any], seen: str, allowed: str) -> None:
    sentence = refused(replace(Request(PROMPT), **wrong))
    assert seen in sentence
    assert allowed in sentence
    assert sentence[0].isupper() or sentence.startswith(("max_tokens", "top-"))
    assert sentence.endswith(".")


def test_too_few_drafters_are_refused() -> None:
    assert "needs 2 drafters; this rig has 1" in refused(Request(PROMPT, method="joint"), drafters=1)


@pytest.mark.parametrize("method", list(METHODS))
def test_closing_the_iterator_releases_the_cache(method: str) -> None:
    target = ToyTarget()
    drafters = [ToyDrafter(target, seed=seed) for seed in range(METHODS[method].drafter_count)]
    rounds = decode(Request(PROMPT, method=method, budget=7, max_tokens=60), target, drafters)
    next(rounds)
    assert target.released == 0
    rounds.close()
    assert target.released == 1
    assert target.text == []
    assert [drafter.released for drafter in drafters] == [1] * len(drafters)


def test_the_end_and_a_failure_release_once_too() -> None:
    target = ToyTarget()
    run(Request(PROMPT, method="ddtree", budget=7, max_tokens=5), target, drafters_of("ddtree", target))
    assert target.released == 1

    class Broken(ToyDrafter):
        """Fails in its second draft."""

        drafted = 0

        def draft(self, root: int, width: int):  # type: ignore[no-untyped-def]
            self.drafted += 1
            if self.drafted > 1:
                raise RuntimeError("no memory")
            return super().draft(root, width)

    drafter = Broken(target)
    with pytest.raises(RuntimeError, match="no memory"):
        run(Request(PROMPT, method="ddtree", budget=7, max_tokens=60), target, [drafter])
    assert target.released == 2
    assert drafter.released == 1


def test_drafters_may_serve_one_run_after_another() -> None:
    target = ToyTarget()
    drafters = drafters_of("merged", target)
    request = Request(PROMPT, method="merged", budget=9, max_tokens=30, sampling=WARM)
    first = text(run(request, target, drafters))
    run(Request((4, 4, 4), method="merged", budget=9, max_tokens=10), target, drafters)
    assert text(run(request, target, drafters)) == first
