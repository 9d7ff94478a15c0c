"""Reading a cost curve, and the pace that lives by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.decoding.loop import decode
from engine.lab.adaptive import AdaptiveBudget, PromiseTally, best_order, promises
from engine.lab.cost import CostCurve, between
from engine.methods import METHODS
from engine.records import Acceptance, DraftTree, Request
from engine.trees.tree import beginning, plant
from tests.engine.material import GREEDY, LOSSLESS, WARM, drafters_of, text
from tests.engine.toy import ToyTarget

STAIRS = CostCurve("rig", "machine", "float32", "greedy", 64, 5, (1, 8, 9, 16, 17), (4.0, 4.0, 6.0, 6.0, 20.0),
                   (4.0, 4.0, 6.0, 6.0, 20.0), (6.0,) * 5, (1.0,) * 5, 0.5, 4.5)


def test_a_curve_is_read_between_its_neighbours_and_goes_on_behind_its_last() -> None:
    assert [STAIRS.verify_at(rows) for rows in (1, 5, 8, 9, 12, 16, 17, 18)] == [4, 4, 4, 6, 6, 6, 20, 34]
    assert STAIRS.round_ms(9, 8, 2, 0.25) == 2 * 1.0 + 0.25 + 6.0 + 0.5
    assert STAIRS.round_ms(1, 0, 0) == STAIRS.plain_ms


def test_a_round_of_several_requests_has_their_rows_together() -> None:
    two = replace(STAIRS, requests=2, rows=(2, 8, 16), verify_ms=(4.0, 7.0, 15.0), draft_ms=(2.0, 4.0, 8.0))
    assert two.draft_at(3) == 4.0, "two requests with three nodes and a root each"
    assert two.even_round_ms(3, 1) == 7.0 + 4.0 + 0.5 and two.even_round_ms(0, 0) == two.plain_ms


def test_what_lies_between_two_numbers_of_requests_is_read_between_them() -> None:
    fewer = replace(STAIRS, requests=2, rows=(2, 8), verify_ms=(2.0, 8.0), verify_low_ms=(1.0, 7.0),
                    verify_high_ms=(3.0, 9.0), draft_ms=(2.0, 8.0), overhead_ms=1.0, plain_ms=4.0)
    more = replace(fewer, requests=4, rows=(4, 8), verify_ms=(6.0, 10.0), verify_low_ms=(5.0, 9.0),
                   draft_ms=(6.0, 10.0), overhead_ms=3.0, plain_ms=8.0, repeats=2)
    found = between(fewer, more, 3)
    assert (found.requests, found.rows, found.repeats) == (3, (3, 4, 8), 2)
    assert (found.overhead_ms, found.plain_ms) == (2.0, 6.0)
    assert found.verify_ms == (4.5, 5.0, 9.0) and found.verify_low_ms == (3.5, 4.0, 8.0)
    assert found.draft_ms[0] == 4.0, "no node each: between the drafts of two and of four without any"


def chain_tree(*chances: float) -> DraftTree:
    """A chain whose nodes have these chances of their own."""
    nodes = len(chances)
    return plant(7, np.arange(nodes, dtype=np.int32), np.arange(nodes, dtype=np.int32),
                 np.log(chances).cumsum().astype(np.float32))


@pytest.mark.parametrize(("chances", "rows"), [
    ((0.9,) * 12, 8), ((0.99,) * 15, 16), ((1.0,) * 20, 16), ((0.01,) * 12, 8)])
def test_rows_are_taken_to_the_edge_of_a_step_that_pays(chances: tuple[float, ...], rows: int) -> None:
    pace = AdaptiveBudget(STAIRS)
    assert pace.opens(1, 20) == (1, 20) and pace.opens(1, 256) == (1, 24)
    assert len(pace.cut(chain_tree(*chances))) == rows


def test_the_tree_that_is_cut_is_the_most_probable_one_in_its_own_order() -> None:
    tree = DraftTree(np.asarray([7, 1, 2, 3, 4], np.int32), np.asarray([0, 0, 1, 0, 3], np.int32),
                     np.log(np.asarray([1, 0.3, 0.2, 0.6, 0.5])).astype(np.float32),
                     np.asarray([0, 1, 1, 2, 2], np.int32))
    assert best_order(tree).tolist() == [0, 3, 4, 1, 2]
    steep = replace(STAIRS, rows=(1, 2, 3, 4, 5), verify_low_ms=(4, 4, 4, 50, 60))
    pace = AdaptiveBudget(steep)
    pace.opens(2, 16)
    cut = pace.cut(tree)
    assert (cut.tokens.tolist(), cut.parents.tolist(), cut.drafters.tolist()) == ([7, 3, 4], [0, 0, 1], [0, 2, 2])


def test_steps_promise_what_their_nodes_do() -> None:
    chances = [1, 0.5, 0.25, 0.25, 0.125, 0.125]
    assert promises(np.log(chances).tolist(), (1, 2, 5, 9)) == pytest.approx([1, 0.5, 0.625])


def test_calibration_learns_that_a_drafter_promises_too_much() -> None:
    calibration, sure = PromiseTally((1, 3, 5, 9)), [1.0, 1.8, 1.8]
    for _ in range(60):
        calibration.learn(sure, [0, 1])
    assert calibration.tokens(sure) == pytest.approx([1, 2, 2.2], abs=0.3), "one of two nodes, and none of the next"
    for _ in range(90):
        calibration.learn(sure, [0, 1, 2, 3])
    assert calibration.tokens(sure) == pytest.approx([1, 3, 4], abs=0.3), "what was long ago weighs less"
    assert calibration.tokens([*sure, 0.2])[-1] - calibration.tokens(sure)[-1] == pytest.approx(0.2), (
        "what was never seen keeps the drafter's word")


def test_places_are_counted_best_first_whatever_the_tree_s_own_order() -> None:
    tree = DraftTree(np.asarray([7, 1, 2], np.int32), np.asarray([0, 0, 0], np.int32),
                     np.log(np.asarray([1, 0.1, 0.8])).astype(np.float32), np.asarray([0, 1, 2], np.int32))
    pace = AdaptiveBudget(replace(STAIRS, rows=(1, 2, 3), verify_low_ms=(4, 4, 4), draft_ms=(1, 1, 1)))
    pace.opens(2, 16)
    verified = pace.cut(tree)
    assert verified.tokens.tolist() == [7, 1, 2]
    before = list(pace._calibration.realised)
    pace.learn(verified, Acceptance(np.asarray([0, 2], np.int32), 0))
    assert [after > was for after, was in zip(pace._calibration.realised, before, strict=True)] == [True, True, False]


def rounds_that_drafted(pace: AdaptiveBudget, tree: DraftTree, keep: int, rounds: int) -> list[bool]:
    done = []
    for _ in range(rounds):
        drafters, _ = pace.opens(1, 16)
        done.append(drafters > 0)
        verified = pace.cut(tree) if drafters else beginning(tree, 0)
        pace.learn(verified, Acceptance(np.arange(min(keep, len(verified)), dtype=np.int32), 0))
    return done


def test_drafting_pauses_while_it_does_not_pay_and_is_tried_again() -> None:
    dear = replace(STAIRS, draft_ms=(4.0,) * 5)
    pace = AdaptiveBudget(dear)
    drafted = rounds_that_drafted(pace, chain_tree(*(0.2,) * 8), 1, 600)
    assert drafted[0] and 3 <= sum(drafted[1:]) <= 12, "ever rarer, but never for good"
    later = rounds_that_drafted(pace, chain_tree(*(0.999,) * 8), 9, 400)
    assert all(later[later.index(True):]), "once it pays again, every round drafts"


@pytest.mark.parametrize("draft_ms", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("chances", [(0.95,) * 12, (0.5,) * 12])
def test_a_drafter_that_promises_what_never_comes_true_costs_three_percent_at_most(
        draft_ms: float, chances: tuple[float, ...]) -> None:
    dear = replace(STAIRS, draft_ms=(draft_ms,) * 5)
    pace, tree, spent, tokens = AdaptiveBudget(dear), chain_tree(*chances), 0.0, 400
    for _ in range(tokens):
        drafters, _ = pace.opens(1, 16)
        verified = pace.cut(tree) if drafters else beginning(tree, 0)
        pace.learn(verified, Acceptance(np.zeros(1, np.int32), 0))
        spent += dear.round_ms(len(verified), len(tree) - 1, drafters)
    assert spent <= 1.03 * tokens * dear.plain_ms


def test_a_pace_that_pays_never_pauses() -> None:
    assert all(rounds_that_drafted(AdaptiveBudget(STAIRS), chain_tree(*(0.9,) * 12), 8, 40))


@pytest.mark.parametrize("method", [name for name in LOSSLESS if METHODS[name].drafter_count])
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])
def test_the_text_does_not_depend_on_the_pace(method: str, sampling) -> None:  # type: ignore[no-untyped-def]
    target = ToyTarget()
    asked = Request((1, 2, 3), method=method, budget=32, max_tokens=60, sampling=sampling, pace="auto")
    plain = text(decode(replace(asked, method="autoregressive"), target, []))
    dear = replace(STAIRS, draft_ms=(3.0,) * 5)
    for curve in (STAIRS, dear):
        rounds = list(decode(asked, target, drafters_of(method, target), AdaptiveBudget(curve)))
        if METHODS[method].accept == "walk":
            assert text(rounds) == plain
        assert all(len(made.tree) - 1 <= 32 for made in rounds)
        again = list(decode(asked, target, drafters_of(method, target), AdaptiveBudget(curve)))
        assert [len(made.tree) for made in again] == [len(made.tree) for made in rounds], "deterministic"


def test_rounds_without_a_draft_are_plain_ones() -> None:
    target = ToyTarget()
    dear = replace(STAIRS, draft_ms=(500.0,) * 5)
    rounds = list(decode(Request((1, 2, 3), method="joint", budget=32, max_tokens=40,
                                 pace="auto"), target, drafters_of("joint", target),
                         AdaptiveBudget(dear)))
    paused = [made for made in rounds if not made.drafts]
    assert len(paused) > len(rounds) / 2
    assert all(len(made.tree) == 1 and made.candidates == () and made.scores == () for made in paused)


def test_a_round_takes_what_its_time_would_not_bring_elsewhere() -> None:
    """A chain that is nearly certain: the largest tokens a millisecond of this round alone would end it at 8 rows, but
    the other rounds bring less, so its further nodes pay."""
    curve = replace(STAIRS, verify_low_ms=(4.0, 4.0, 5.0, 6.0, 20.0))
    pace = AdaptiveBudget(curve)
    for _ in range(20):
        pace.opens(1, 16)
        pace.learn(pace.cut(chain_tree(0.5, 0.2)), Acceptance(np.zeros(1, np.int32), 0))
    pace.opens(1, 16)
    assert len(pace.cut(chain_tree(*(0.99,) * 8, *(0.7,) * 7))) > 8


def test_trees_are_built_larger_only_when_the_last_ones_were_wanted_whole() -> None:
    flat = replace(STAIRS, rows=(1, 9, 17, 33, 65), verify_low_ms=(4.0, 4.1, 4.2, 4.3, 4.4))
    pace, built = AdaptiveBudget(flat), []
    for _ in range(6):
        built.append(pace.opens(1, 256)[1])
        pace.cut(chain_tree(*(0.999,) * built[-1]))
    assert built == [24, 24, 24, 32, 64, 64]
    pace.cut(chain_tree(0.9, *(1e-6,) * 63))
    assert pace.opens(1, 256)[1] == 24
