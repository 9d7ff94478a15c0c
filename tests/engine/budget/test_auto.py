"""What budget=auto verifies, when it drafts, and what it learns, in one run and among concurrent runs."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.budget.auto import (
    BIN_OF_RANK,
    EXPLORATION,
    INITIAL_BALANCE,
    RANK_STEPS,
    UNMEASURED,
    AutoBudget,
    DraftHistory,
)
from engine.budget.cost import RoundCost
from engine.decoding.budget_policy import BudgetPolicy, cut_trees
from engine.decoding.loop import DecodeRun, decode_batch
from engine.decoding.methods import METHODS
from engine.decoding.tree import from_nodes, prefix
from engine.records import Acceptance, DraftTree, Request, Sampling
from engine.serving.scheduler import FairShare, pick_batch, update_owed
from tests.engine.budget.test_cost import STAIRS
from tests.engine.helpers import GREEDY, WARM, decode, drafters_of, text, trees
from tests.engine.helpers import run as run_of
from tests.engine.toy import ToyTarget


def chain_tree(*chances: float) -> DraftTree:
    """Return a chain whose nodes have these conditional probabilities."""
    nodes = len(chances)
    return from_nodes(7, np.arange(nodes, dtype=np.int32), np.arange(nodes, dtype=np.int32),
                      np.log(chances).cumsum().astype(np.float32))


@pytest.mark.parametrize(("chances", "rows"), [
    ((0.9,) * 12, 9), ((0.99,) * 15, 16), ((1.0,) * 20, 16), ((0.01,) * 12, 1)])
def test_a_tree_fills_a_step_of_the_curve_that_pays(chances: tuple[float, ...], rows: int) -> None:
    policy = AutoBudget(replace(STAIRS, verify_low_ms=(4.0, 4.1, 6.0, 6.0, 20.0)))
    assert policy.plan(1, 10) == (1, 10)
    policy = AutoBudget(policy.curve)
    assert policy.plan(1, 256) == (1, 16)
    assert len(cut_trees([policy], [chain_tree(*chances)])[0]) == rows


def test_acceptance_is_counted_in_best_first_order() -> None:
    tree = DraftTree(np.asarray([7, 1, 2], np.int32), np.asarray([0, 0, 0], np.int32),
                     np.log(np.asarray([1, 0.1, 0.8])).astype(np.float32), np.asarray([0, 1, 2], np.int32))
    policy = AutoBudget(replace(STAIRS, rows=(1, 2, 3), verify_low_ms=(4, 4, 4), draft_ms=(1, 1, 1)))
    policy.plan(2, 16)
    (verified,) = cut_trees([policy], [tree])
    assert verified.tokens.tolist() == [7, 1, 2]
    policy.learn(verified, Acceptance(np.asarray([0, 2], np.int32), 0))
    scales = policy.history.scales
    assert scales[BIN_OF_RANK[1]] > 1 > scales[BIN_OF_RANK[2]]


def drafting_rounds(policy: AutoBudget, tree: DraftTree, keep: int, rounds: int) -> list[bool]:
    drafted = []
    for _ in range(rounds):
        drafters, _ = policy.plan(1, 16)
        drafted.append(drafters > 0)
        (verified,) = cut_trees([policy], [tree if drafters else prefix(tree, 0)])
        policy.learn(verified, Acceptance(np.arange(min(keep, len(verified)), dtype=np.int32), 0))
    return drafted


def test_drafting_pauses_while_it_does_not_pay_and_is_tried_again() -> None:
    policy = AutoBudget(replace(STAIRS, draft_ms=(4.0,) * 5))
    drafted = drafting_rounds(policy, chain_tree(*(0.2,) * 8), 1, 600)
    assert drafted[0] and 3 <= sum(drafted[1:]) <= 600 * EXPLORATION + INITIAL_BALANCE + 3, "rare drafts, but some"
    later = drafting_rounds(policy, chain_tree(*(0.999,) * 8), 9, 400)
    first = later.index(True)
    assert later[first:].count(False) <= EXPLORATION * 400 + 1, "once it pays, most rounds draft"


def test_rounds_without_a_draft_are_plain() -> None:
    target = ToyTarget()
    rounds = list(decode(Request((1, 2, 3), method="joint", budget=32, max_tokens=40, pace="auto"), target,
                         drafters_of("joint", target), AutoBudget(replace(STAIRS, draft_ms=(500.0,) * 5))))
    paused = [round_ for round_ in rounds if not round_.drafts]
    assert len(paused) > len(rounds) / 2
    assert all(len(round_.tree) == 1 and round_.candidates == () and round_.scores == () for round_ in paused)


def test_a_shared_round_ends_the_comparison_with_earlier_rounds() -> None:
    policy = AutoBudget(STAIRS)
    for interrupted in (False, True):
        policy.history = DraftHistory()
        for _ in range(3):
            policy.drafter_count = 0
            policy.record_timing({"draft": 0.0, "verify": 0.0045})
        if interrupted:
            policy.record_timing({"draft": 0.0, "verify": 0.1}, alone=False)
        policy.plan(1, 16)
        cut_trees([policy], [chain_tree(*(0.95,) * 8)])
        policy.record_timing({"draft": 0.5, "verify": 0.5})
        assert (policy.history.factor == 1.0) == interrupted


# Several runs in one round

ROWS = (1, 2, 3, 5, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257)
PASSES = tuple(7.0 + 0.25 * (size - 1) for size in ROWS)
SINGLE_RUN_CURVE = replace(
    UNMEASURED, rows=ROWS, verify_ms=PASSES, verify_low_ms=PASSES, verify_high_ms=PASSES, draft_ms=(5.5,) * len(ROWS),
    overhead_ms=0.2, plain_ms=7.2)
EASY, MIDDLE, HARD, HOPELESS = 0.95, 0.8, 0.5, 0.1  # probability of each node, given its parent


class SimulatedRun(FairShare):
    """Simulate a run whose drafter is right with the same probability everywhere."""

    def __init__(self, chance: float, policy: BudgetPolicy) -> None:
        super().__init__()
        self.chance, self.policy = chance, policy
        self.tokens, self.drafted = 0, False
        self.sizes: list[int] = []

    def build_tree(self) -> DraftTree:
        drafting, budget = self.policy.plan(1, 64)
        self.drafted = bool(drafting)
        return chain_tree(*(self.chance,) * min(15, budget if drafting else 0))

    def accept(self, tree: DraftTree, draws: random.Random) -> None:
        kept = 1
        while kept < len(tree) and draws.random() < self.chance:
            kept += 1
        self.policy.learn(tree, Acceptance(np.arange(kept, dtype=np.int32), 0))
        self.tokens, self.rows = self.tokens + kept, len(tree)
        self.sizes.append(len(tree) - 1)


class Simulation:
    """Simulate rounds whose pass and draft times grow with the number of requests by these powers."""

    def __init__(self, runs: Sequence[SimulatedRun], powers: tuple[float, float]) -> None:
        self.runs, self.powers = list(runs), powers
        self.cost, self.milliseconds, self.draws = RoundCost(), 0.0, random.Random(3)

    def round(self) -> None:
        inside = pick_batch(self.runs, self.cost)
        policies = [run.policy for run in inside]
        trees = cut_trees(policies, [run.build_tree() for run in inside])
        rows, drafting, requests = sum(map(len, trees)), sum(run.drafted for run in inside), len(inside)
        pass_power, draft_power = self.powers
        seconds = {"draft": drafting**draft_power * SINGLE_RUN_CURVE.draft_at(24) / 1e3 if drafting else 0.0,
                   "verify": requests**pass_power * SINGLE_RUN_CURVE.verify_at(rows) / 1e3,
                   "keep": requests * SINGLE_RUN_CURVE.overhead_ms / 1e3}
        for run, tree in zip(inside, trees, strict=True):
            run.accept(tree, self.draws)
        for policy in policies:
            policy.record_timing(seconds, alone=len(inside) == 1)
        took = sum(seconds.values())
        self.cost.learn(rows, took)
        update_owed(self.runs, inside, self.cost)
        self.milliseconds += 1e3 * took

    def rates(self, rounds: int = 400) -> list[float]:
        """Return the tokens per millisecond of each run."""
        for _ in range(rounds):
            self.round()
        return [run.tokens / self.milliseconds for run in self.runs]


def runs_of(chances: Sequence[float], pools_rows: bool = True) -> list[SimulatedRun]:
    return [SimulatedRun(chance, AutoBudget(SINGLE_RUN_CURVE, pools_rows=pools_rows)) for chance in chances]


MIXTURES = ((EASY, HARD), (EASY, EASY, EASY, HARD), (HOPELESS,) * 7 + (EASY,), (EASY,) * 7 + (HARD,),
            (EASY, MIDDLE, HARD, HOPELESS) * 2, (MIDDLE,) * 8)


@pytest.mark.slow
@pytest.mark.parametrize("powers", [(0.1, 0.5), (0.0, 0.0), (0.4, 0.9)], ids=["usual", "free", "expensive"])
@pytest.mark.parametrize("chances", MIXTURES, ids=str)
def test_no_run_falls_below_a_share_of_a_lone_runs_speed(chances: Sequence[float], powers: tuple[float, float]) -> None:
    rates = Simulation(runs_of(chances), powers).rates()
    lone = {chance: Simulation(runs_of([chance]), (0.0, 0.0)).rates()[0] for chance in set(chances)}
    parts = [rate * len(chances) / lone[chance] for rate, chance in zip(rates, chances, strict=True)]
    assert min(parts) > (0.5 if powers == (0.4, 0.9) else 0.8), parts


@pytest.mark.slow
def test_rows_go_to_easy_texts_and_raise_the_total_speed() -> None:
    chances = (EASY, MIDDLE, HARD, HOPELESS) * 2
    shared, single = (Simulation(runs_of(chances, pools_rows=pools_rows), (0.1, 0.5)) for pools_rows in (True, False))
    assert sum(shared.rates()) > 1.05 * sum(single.rates())
    easy, _, hard, hopeless, *_ = (float(np.mean(run.sizes)) for run in shared.runs)
    assert easy > 6 and hopeless < 0.5 and hard < 1.5


def test_before_any_measurement_rows_are_shared_by_proportion() -> None:
    runs = [SimulatedRun(chance, AutoBudget(UNMEASURED)) for chance in (EASY, HOPELESS)]
    Simulation(runs, (0.1, 0.5)).rates(120)
    assert np.mean(runs[0].sizes) > 5 and np.mean(runs[1].sizes) < 1
    assert UNMEASURED.rows == RANK_STEPS and UNMEASURED.verify_ms[-1] > UNMEASURED.verify_ms[-2]


def test_a_fixed_tree_is_not_cut_and_its_rows_are_counted() -> None:
    policy, big = AutoBudget(SINGLE_RUN_CURVE), chain_tree(*(0.1,) * 14)
    policies = [BudgetPolicy(), policy]
    policy.plan(1, 64)
    cut = cut_trees(policies, [big, chain_tree(*(0.99,) * 15)])
    assert cut[0] is big and sum(map(len, cut)) in ROWS
    huge = chain_tree(*(0.9,) * 400)
    policy.plan(1, 64)
    assert len(cut_trees(policies, [huge, chain_tree(*(0.999,) * 15)])[1]) > 8, "also beyond the curve's end"


@given(st.lists(trees(), min_size=1, max_size=4), st.floats(0.01, 2))
def test_the_best_nodes_of_all_trees_are_kept_at_the_best_size(
        full_trees: list[DraftTree], slope: float) -> None:
    passes = tuple(4 + slope * size for size in ROWS)
    curve = replace(SINGLE_RUN_CURVE, verify_low_ms=passes, draft_ms=(0.0,) * len(ROWS), plain_ms=passes[0])
    runs = [AutoBudget(curve) for _ in full_trees]
    for run in runs:
        run.plan(1, 64)
    plain_ms = curve.plain_ms + runs[0].pass_ms(len(runs)) - passes[0] + (len(runs) - 1) * 0.2
    tokens_per_ms = max(len(runs) / plain_ms, sum(run.tokens_per_ms for run in runs))
    chances = [run.candidates(tree).chances for run, tree in zip(runs, full_trees, strict=True)]
    cut = cut_trees(runs, full_trees)
    nodes = [len(tree) - 1 for tree in cut]
    for full_tree, tree in zip(full_trees, cut, strict=True):
        assert (tree.parents[1:] < np.arange(1, len(tree))).all()
        assert sorted(tree.logprobs, reverse=True) == sorted(full_tree.logprobs, reverse=True)[:len(tree)]

    def gain(counts: Sequence[int]) -> float:
        tokens = sum(sum(of_tree[:count]) for of_tree, count in zip(chances, counts, strict=True))
        return tokens - tokens_per_ms * runs[0].pass_ms(len(runs) + sum(counts))

    everything = [counts for counts in product(*(range(min(len(of_tree), 6) + 1) for of_tree in chances))
                  if sum(counts) == 0 or len(runs) + sum(counts) in ROWS]
    assert gain(nodes) >= max(map(gain, everything)) - 1e-9


def mixed_requests(sampling: Sampling) -> list[Request]:
    """Return requests of every method, fixed and adaptive, with different lengths and seeds."""
    return [Request((1, 2, number % 5), method=method, budget=(31, 64)[number % 2], max_tokens=25 + 9 * (number % 4),
                    sampling=replace(sampling, seed=number), pace="fixed" if number % 4 == 3 else "auto")
            for number, method in enumerate([*METHODS, *METHODS])]


@pytest.mark.parametrize("concurrency", [1, 3, 8])
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])
@pytest.mark.parametrize("draft_ms", [0.5, 90.0])
def test_every_text_equals_that_of_the_request_alone(sampling: Sampling, concurrency: int, draft_ms: float) -> None:
    target, curve = ToyTarget(seed=2), replace(SINGLE_RUN_CURVE, draft_ms=(draft_ms,) * len(ROWS))
    requests = [request for request in mixed_requests(sampling) if METHODS[request.method].follows_text]
    alone = [text(run_of(replace(request, pace="fixed"), target, drafters_of(request.method, target)))
             for request in requests]
    runs = [DecodeRun(request, target.fork(), drafters_of(request.method, target),
                      AutoBudget(curve) if request.pace == "auto" else None) for request in requests]
    rounds = list(decode_batch(runs, concurrency))
    assert [text([round_ for owner, round_ in rounds if owner == number]) for number in range(len(runs))] == alone
    sizes = {len(round_.tree) for number, round_ in rounds if requests[number].pace == "auto"}
    assert len(sizes) > 3 or draft_ms > 1
    assert all(len(round_.tree) <= 1 + requests[number].budget for number, round_ in rounds)
