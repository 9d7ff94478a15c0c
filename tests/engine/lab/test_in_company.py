"""Runs that come and go: alone each is as it ever was, in company they share one total of rows, and nobody is left with
less than a part of what he had alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from engine.decoding.budget_policy import BudgetPolicy, FixedBudget
from engine.decoding.together import BatchRequest, RequestBatch
from engine.lab.adaptive import AdaptiveBudget
from engine.lab.cost import joined
from engine.lab.in_company import BudgetInCompany, PaceInCompany
from engine.lab.joint_costs import DRAFT_POWER, PASS_POWER, UNMEASURED, JointCosts
from engine.lab.shared_pace import STEPS
from engine.methods import METHODS
from engine.records import Acceptance, DraftTree, Request, Round
from engine.runtime.rigs.fairness import RoundCost, served, settle
from engine.trees.tree import plant
from tests.engine.lab.test_cost import chain_tree
from tests.engine.material import GREEDY, drafters_of, text
from tests.engine.material import run as run_of
from tests.engine.toy import ToyTarget

ROWS = (1, 2, 3, 5, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257)
PASSES = tuple(7.0 + 0.25 * (size - 1) for size in ROWS)
LONE = replace(UNMEASURED, rows=ROWS, verify_ms=PASSES, verify_low_ms=PASSES, verify_high_ms=PASSES,
               draft_ms=(5.5,) * len(ROWS), overhead_ms=0.2, plain_ms=7.2)
EASY, MIDDLE, HARD, HOPELESS = 0.95, 0.8, 0.5, 0.1  # chance of each node after its parent's
BARE = plant(7, *(np.zeros(0, np.int32),) * 2, np.zeros(0, np.float32))


@dataclass(eq=False)
class Simulated:
    """A run whose drafter is right with the same chance everywhere."""

    chance: float
    policy: BudgetPolicy
    owed: float = 0.0
    rows: int = 1
    tokens: int = 0
    drafted: bool = False
    sizes: list[int] = field(default_factory=list)

    def built(self) -> DraftTree:
        drafting, budget = self.policy.opens(1, 64)
        self.drafted = bool(drafting)
        return self.policy.cut(chain_tree(*(self.chance,) * min(15, budget))) if drafting else BARE

    def accept(self, tree: DraftTree, draws: random.Random) -> None:
        kept = 1
        while kept < len(tree) and draws.random() < self.chance:
            kept += 1
        self.policy.learn(tree, Acceptance(np.arange(kept, dtype=np.int32), 0))
        self.tokens, self.rows = self.tokens + kept, len(tree)
        self.sizes.append(len(tree) - 1)


class World:
    """Rounds that take what the lone curve says, and grow with the requests in them by these powers."""

    def __init__(self, runs: Sequence[Simulated], costs: JointCosts, powers: tuple[float, float]) -> None:
        self.runs, self.budget, self.powers = runs, BudgetInCompany(costs), powers
        self.cost, self.milliseconds, self.draws = RoundCost(), 0.0, random.Random(3)

    def round(self) -> None:
        inside = served(self.runs, self.cost)
        policies = [run.policy for run in inside]
        self.budget.opens(policies)
        trees = self.budget.cut(policies, [run.built() for run in inside])
        rows, drafting = sum(map(len, trees)), sum(run.drafted for run in inside)
        curve = joined(LONE, len(inside), *self.powers)
        seconds = {"draft": joined(LONE, drafting, *self.powers).draft_at(24) / 1e3 if drafting else 0.0,
                   "verify": curve.verify_at(rows) / 1e3, "keep": curve.overhead_ms / 1e3}
        for run, tree in zip(inside, trees, strict=True):
            run.accept(tree, self.draws)
        self.budget.ended(policies, seconds)
        took = sum(seconds.values())
        self.cost.learn(rows, took)
        settle(self.runs, inside, self.cost)
        self.milliseconds += 1e3 * took

    def rates(self, rounds: int = 400) -> list[float]:
        """Tokens a millisecond of each run."""
        for _ in range(rounds):
            self.round()
        return [run.tokens / self.milliseconds for run in self.runs]


def measured() -> JointCosts:
    costs = JointCosts()
    costs.rest_on(LONE)
    return costs


def lone_rate(chance: float) -> float:
    """Of a run by itself, at its own pace."""
    (rate,) = World([Simulated(chance, AdaptiveBudget(LONE))], measured(), (0.0, 0.0)).rates()
    return rate


def in_company(chances: Sequence[float]) -> list[Simulated]:
    return [Simulated(chance, PaceInCompany(LONE)) for chance in chances]


MIXTURES = ((EASY, HARD), (EASY, EASY, EASY, HARD), (HOPELESS,) * 7 + (EASY,), (EASY,) * 7 + (HARD,),
            (EASY, MIDDLE, HARD, HOPELESS) * 2, (MIDDLE,) * 8)


@pytest.mark.slow
@pytest.mark.parametrize("powers", [(PASS_POWER, DRAFT_POWER), (0.0, 0.0), (0.4, 0.9)], ids=["usual", "free", "dear"])
@pytest.mark.parametrize("chances", MIXTURES, ids=str)
def test_nobody_falls_below_a_part_of_a_lone_run(chances: Sequence[float], powers: tuple[float, float]) -> None:
    costs = measured()
    rates = World(in_company(chances), costs, powers).rates()
    parts = [rate * len(chances) / lone_rate(chance) for rate, chance in zip(rates, chances, strict=True)]
    assert min(parts) > 0.8, parts


@pytest.mark.slow
def test_rows_go_to_the_easy_and_all_together_are_faster_than_each_by_itself() -> None:
    costs, chances = measured(), (EASY, MIDDLE, HARD, HOPELESS) * 2
    shared = World(in_company(chances), costs, (PASS_POWER, DRAFT_POWER))
    own = World([Simulated(chance, AdaptiveBudget(LONE)) for chance in chances], measured(), shared.powers)
    assert sum(shared.rates()) > 1.05 * sum(own.rates())
    easy, _, hard, hopeless, *_ = (float(np.mean(run.sizes)) for run in shared.runs)
    alone = World([Simulated(HARD, AdaptiveBudget(LONE))], measured(), (0.0, 0.0))
    alone.rates()
    assert easy > 8 and hopeless < 0.5 and 0 < hard < min(1.0, float(np.mean(alone.runs[0].sizes)))


def test_a_run_is_as_it_ever_was_while_nobody_is_there() -> None:
    """Before the first visitor, and after him but for what it knew before."""
    costs = measured()
    visited = World(in_company((EASY,)), costs, (PASS_POWER, DRAFT_POWER))
    never = World([Simulated(EASY, AdaptiveBudget(LONE))], measured(), visited.powers)
    for _ in range(30):
        visited.round()
        never.round()
    assert visited.runs[0].sizes == never.runs[0].sizes and visited.milliseconds == never.milliseconds
    (first,) = visited.runs
    visited.runs = [first, *in_company((EASY,) * 7)]
    for _ in range(30):
        visited.round()
    visited.runs, visited.cost, visited.draws, first.owed = [first], never.cost, never.draws, 0.0
    state = never.draws.getstate()
    for _ in range(30):
        never.round()
    never.draws.setstate(state)
    for _ in range(30):
        visited.round()
    assert first.sizes[-30:] == never.runs[0].sizes[-30:]
    assert np.mean(first.sizes[30:-30]) < np.mean(first.sizes[:30])


@pytest.mark.parametrize("powers", [(0.3, 0.8), (0.0, 0.2)])
def test_what_shared_rounds_cost_is_learnt_from_them(powers: tuple[float, float]) -> None:
    costs = measured()
    World(in_company((EASY,) * 4), costs, powers).rates()
    assert (costs.pass_power, costs.draft_power) == pytest.approx(powers, abs=0.05)
    assert costs.curve(4).verify_at(33) == pytest.approx(joined(LONE, 4, *powers).verify_at(33), rel=0.1)
    before = costs.pass_power
    costs.learn_pass(4, 33, 1e6)
    assert before < costs.pass_power < before + 0.02, "one that was held up says little"


def test_joint_curves_that_somebody_measured_serve_as_they_are() -> None:
    costs = JointCosts()
    costs.rest_on(LONE, lambda requests: replace(LONE, requests=requests, overhead_ms=77.0))
    World(in_company((EASY,) * 3), costs, (0.9, 0.9)).rates(60)
    assert costs.curve(3).overhead_ms == 77.0 and costs.curve(1) is LONE
    assert (costs.pass_power, costs.draft_power) == (PASS_POWER, DRAFT_POWER)


def test_before_anything_was_measured_drafts_are_given_by_proportion_and_nothing_is_learnt() -> None:
    costs = JointCosts()
    budget = BudgetInCompany(costs)
    runs = [Simulated(chance, budget.policy()) for chance in (EASY, HOPELESS)]
    world = World(runs, costs, (PASS_POWER, DRAFT_POWER))
    world.rates(120)
    assert np.mean(runs[0].sizes) > 5 and 0 < np.mean(runs[1].sizes) < 1
    assert costs.curve(1) is UNMEASURED and costs.pass_power == PASS_POWER


def test_before_anything_was_measured_every_size_that_a_tree_is_built_for_has_a_price() -> None:
    assert UNMEASURED.rows == STEPS and UNMEASURED.verify_ms[-1] > UNMEASURED.verify_ms[-2]


def test_a_fixed_tree_stays_whole_and_what_others_draft_teaches_nothing_of_drafts() -> None:
    costs = measured()
    runs = [Simulated(EASY, FixedBudget()), *in_company((EASY, HARD))]
    World(runs, costs, (PASS_POWER, 1.4)).rates(100)
    assert set(runs[0].sizes) == {15} and costs.draft_power == DRAFT_POWER


@pytest.mark.parametrize("at_once", [2, 5])
def test_texts_are_those_of_lone_runs_whoever_comes_and_goes(at_once: int) -> None:
    target = ToyTarget(seed=2)
    methods = [name for name, row in METHODS.items() if row.follows_text and row.drafter_count]
    requests = [Request((1, 2, place % 5), method=methods[place % len(methods)], budget=64, sampling=GREEDY,
                        max_tokens=20 + 13 * (place % 5), pace="fixed" if place % 5 == 4 else "auto")
                for place in range(15)]
    alone = [text(run_of(replace(each, pace="fixed"), target, drafters_of(each.method, target))) for each in requests]
    batch, waiting = RequestBatch(target, BudgetInCompany(measured())), list(enumerate(requests))[::-1]
    places: dict[int, int] = {}
    found: dict[int, list[Round]] = {place: [] for place in range(len(requests))}
    sizes = set()
    while waiting or len(batch):
        while waiting and len(batch) < at_once and not (len(batch) == 1 and sum(map(len, found.values())) % 4):
            place, each = waiting.pop()
            policy = PaceInCompany(LONE) if each.pace == "auto" and place % 2 else None
            number = batch.admit(BatchRequest(each, drafters_of(each.method, target), policy))
            places[number] = place
            assert batch.shares(number) == (each.pace == "auto")
        for number, made in batch.round():
            found[places[number]].append(made)
            sizes.add(len(made.tree))
    assert [text(found[place]) for place in range(len(requests))] == alone and len(sizes) > 3
