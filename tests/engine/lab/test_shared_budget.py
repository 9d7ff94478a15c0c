"""One total of rows for several requests: who gets how many, who drafts, what is promised; the texts stay theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decoding.budget_policy import BudgetPolicy, FixedBudget
from engine.decoding.loop import decode
from engine.decoding.together import BatchRequest, RequestBatch, decode_together, missed_promises_sentence
from engine.lab.adaptive import LONGEST_PAUSE
from engine.lab.cost import CostCurve
from engine.lab.shared_budget import SharedBudget
from engine.lab.shared_pace import SharedPace
from engine.methods import METHODS
from engine.records import Acceptance, DraftTree, Request, Sampling
from engine.trees.tree import plant
from tests.engine.lab.test_cost import STAIRS, chain_tree
from tests.engine.material import GREEDY, WARM, drafters_of, run, text, trees
from tests.engine.toy import ToyTarget

ROWS = tuple(range(2, 65))


def costs(requests: int) -> CostCurve:
    """A pass of 4 ms to 8 rows, and half a millisecond for each more; a draft of half a millisecond a request."""
    rows = (requests, *(size for size in ROWS if size > requests))
    passes = tuple(4.0 + 0.5 * max(0, size - 8) for size in rows)
    return replace(STAIRS, requests=requests, rows=rows, verify_ms=passes, verify_low_ms=passes, verify_high_ms=passes,
                   draft_ms=(0.5 * requests,) * len(rows), plain_ms=4.5)


def dear(requests: int) -> CostCurve:
    return replace(costs(requests), draft_ms=(90.0 * requests,) * len(costs(requests).rows))


def round_of(budget: SharedBudget, paces: Sequence[SharedPace], drafted: Sequence[DraftTree], kept: Sequence[int],
             seconds: float = 0.01) -> list[DraftTree]:
    """One round in which each request keeps so many rows of what is verified."""
    budget.opens(paces)
    built = [tree if pace.opens(1, 64)[0] else plant(7, *(np.zeros(0, np.int32),) * 2, np.zeros(0, np.float32))
             for pace, tree in zip(paces, drafted, strict=True)]
    cut = budget.cut(paces, built)
    for pace, tree, keep in zip(paces, cut, kept, strict=True):
        pace.learn(tree, Acceptance(np.arange(min(keep, len(tree)), dtype=np.int32), 0))
    budget.ended(paces, {"verify": seconds})
    return cut


def test_rows_go_where_they_buy_most() -> None:
    budget = SharedBudget(costs)
    paces = [budget.policy() for _ in range(4)]
    sure, unsure = chain_tree(*(0.98,) * 15), chain_tree(*(0.2,) * 15)
    sizes = [len(tree) for tree in round_of(budget, paces, [sure, unsure, sure, unsure], [16, 1, 16, 1])]
    assert min(sizes[0], sizes[2]) > 5 and max(sizes[1], sizes[3]) <= 2
    assert sum(sizes) in costs(4).rows


def test_another_s_fixed_tree_stays_whole_and_its_rows_are_counted() -> None:
    budget = SharedBudget(costs)
    pace, fixed = budget.policy(), FixedBudget()
    policies: list[BudgetPolicy] = [fixed, pace]
    budget.opens(policies)
    big = chain_tree(*(0.1,) * 14)
    cut = budget.cut(policies, [big, chain_tree(*(0.99,) * 15)])
    assert cut[0] is big and sum(map(len, cut)) in costs(2).rows


def test_a_request_whose_drafts_never_pay_pauses_and_the_others_do_not() -> None:
    budget = SharedBudget(costs)
    paces = [budget.policy() for _ in range(3)]
    drafted = [chain_tree(*(0.95,) * 12), chain_tree(*(0.1,) * 12), chain_tree(*(0.95,) * 12)]
    drafting = []
    for _ in range(90):
        round_of(budget, paces, drafted, [10, 1, 10])
        drafting.append([pace.drafts for pace in paces])
    first, second, third = np.asarray(drafting).T
    assert first.all() and third.all() and 2 <= second.sum() < 16
    gaps = np.diff(np.flatnonzero(second))
    assert gaps.max() <= LONGEST_PAUSE + 1 and (np.diff(gaps) >= 0).all()
    drafted[1] = drafted[0]
    later = [round_of(budget, paces, drafted, [10, 10, 10]) and paces[1].drafts for _ in range(LONGEST_PAUSE + 30)]
    assert all(later[LONGEST_PAUSE + 1:]), "once they pay again, every round drafts"


def test_nobody_drafts_where_drafts_are_dear() -> None:
    budget = SharedBudget(dear)
    paces = [budget.policy() for _ in range(3)]
    for _ in range(20):
        cut = round_of(budget, paces, [chain_tree(*(0.5,) * 12)] * 3, [2] * 3)
    assert [len(tree) for tree in cut] == [1, 1, 1]


def test_who_is_behind_a_promise_is_served_first() -> None:
    def sizes(promise: float) -> list[int]:
        budget = SharedBudget(costs)
        paces = [budget.policy(), budget.policy(promise)]
        for _ in range(6):
            cut = round_of(budget, paces, [chain_tree(*(0.98,) * 15), chain_tree(*(0.3,) * 8)], [9, 1], 0.1)
        return [len(tree) for tree in cut]

    assert sizes(0.0)[1] <= 2 and sizes(9.0)[1] <= 2, "one token a round is what it gets anyhow"
    assert sizes(60.0)[1] > sizes(0.0)[1]


def test_what_was_promised_and_cannot_be_is_said() -> None:
    target = ToyTarget(seed=2)
    request = Request((1, 2, 3), method="ddtree", budget=15, max_tokens=40, sampling=GREEDY, pace="auto")
    batch = RequestBatch(target, SharedBudget(costs))
    assert batch.missed_promises() == []
    for promise in (1e9, 1e-9, 0.0):
        batch.admit(BatchRequest(request, drafters_of("ddtree", target), promise=promise))
    for _ in range(3):
        batch.round()
    (gap,) = batch.missed_promises()
    assert gap.number == 0 and 0 < gap.got < gap.promised == 1e9
    assert missed_promises_sentence([gap]).startswith("Not every promise can be kept beside the others: request 0 gets")
    assert missed_promises_sentence([]) == ""
    batch.close()


@given(st.lists(trees(), min_size=1, max_size=4), st.integers(0, 20))
def test_what_is_cut_is_a_tree_of_the_most_probable_nodes(built: list[DraftTree], seed: int) -> None:
    budget = SharedBudget(costs)
    paces = [budget.policy() for _ in built]
    random = np.random.default_rng(seed)
    for _ in range(4):
        budget.opens(paces)
        cut = budget.cut(paces, built)
        for pace, whole, tree in zip(paces, built, cut, strict=True):
            assert 1 <= len(tree) <= len(whole) and (tree.parents[1:] < np.arange(1, len(tree))).all()
            assert sorted(tree.logprobs, reverse=True) == sorted(whole.logprobs, reverse=True)[:len(tree)]
            pace.learn(tree, Acceptance(np.arange(random.integers(1, 1 + min(2, len(tree))), dtype=np.int32), 0))
        budget.ended(paces, {"verify": 0.01})


def mixture(sampling: Sampling) -> list[Request]:
    """Every method, at its own pace or not, with lengths and seeds of all kinds."""
    return [Request((1, 2, place % 5), method=method, budget=(31, 64)[place % 2], max_tokens=25 + 9 * (place % 4),
                    sampling=replace(sampling, seed=place), pace="fixed" if place % 4 == 3 else "auto")
            for place, method in enumerate([*METHODS, *METHODS])]


@pytest.mark.parametrize("at_once", [1, 3, 8])
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])
@pytest.mark.parametrize("price", [costs, dear])
def test_every_text_is_that_of_the_request_alone(sampling: Sampling, at_once: int, price: object) -> None:
    target = ToyTarget(seed=2)
    requests = [each for each in mixture(sampling) if METHODS[each.method].accept == "walk"]
    alone = [text(run(replace(request, pace="fixed"), target, drafters_of(request.method, target)))
             for request in requests]
    asked = [BatchRequest(each, drafters_of(each.method, target), promise=1e4 * (place % 3 == 0))
             for place, each in enumerate(requests)]
    made = list(decode_together(asked, target, at_once, SharedBudget(price)))  # type: ignore[arg-type]
    assert [text([each for number, each in made if number == place]) for place in range(len(asked))] == alone
    sizes = {len(each.tree) for number, each in made if requests[number].pace == "auto"}
    assert len(sizes) > 3 or price is dear
    assert all(len(each.tree) <= 1 + requests[number].budget for number, each in made)


def test_the_same_rounds_make_the_same_choices() -> None:
    target, requests = ToyTarget(seed=2), mixture(GREEDY)[:6]
    asked = [BatchRequest(each, drafters_of(each.method, target)) for each in requests]
    first, again = ([len(made.tree) for _, made in decode_together(asked, target, 6, SharedBudget(costs))]
                    for _ in range(2))
    assert first == again
    paced = Request((1, 2, 3), method="ddtree", budget=32, max_tokens=40, sampling=GREEDY, pace="auto")
    plain = text(list(decode(replace(paced, pace="fixed"), target, drafters_of("ddtree", target))))
    batch = RequestBatch(target)
    batch.admit(BatchRequest(paced, drafters_of("ddtree", target)))
    rounds = []
    while len(batch):
        rounds += [made for _, made in batch.round()]
    assert text(rounds) == plain and {len(made.tree) for made in rounds[:-1]} == {33}, "without an allotment: fixed"
