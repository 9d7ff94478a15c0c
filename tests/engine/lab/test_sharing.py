"""Rows given to several trees: never more than there is, beginnings only, and the best that can be had."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.lab.sharing import BEYOND, best_drafting, best_total, ranked
from tests.engine.lab.test_cost import STAIRS

FALLING = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.9, 1.0]), max_size=4).map(
    lambda found: np.asarray(sorted(found, reverse=True), np.float64))
SEVERAL = st.lists(st.tuples(FALLING, st.integers(0, 5)), min_size=1, max_size=4)


@given(SEVERAL, st.integers(0, 16))
def test_the_first_nodes_of_the_ranking_are_the_best_of_all(trees: list[tuple[np.ndarray, int]], nodes: int) -> None:
    chances, owed = [each for each, _ in trees], [most for _, most in trees]
    ranking = ranked(chances, owed)
    least = [min(most, len(own)) for own, most in trees]
    assert ranking.owed == sum(least) and len(ranking.trees) == sum(map(len, chances))
    nodes = min(len(ranking.trees), max(nodes, ranking.owed))
    shares = ranking.shares(nodes, len(trees))
    assert sum(shares) == nodes
    assert all(few <= share <= len(own) for few, share, own in zip(least, shares, chances, strict=True))
    found = sum(own[:share].sum() for own, share in zip(chances, shares, strict=True))
    assert found == pytest.approx(ranking.reached[nodes])
    every = product(*(range(few, len(own) + 1) for few, own in zip(least, chances, strict=True)))
    assert found == pytest.approx(max(
        sum(own[:share].sum() for own, share in zip(chances, each, strict=True))
        for each in every if sum(each) == nodes))


@given(SEVERAL, st.integers(0, 3), st.floats(0.01, 2))
def test_the_total_is_the_best_of_all_sizes(trees: list[tuple[np.ndarray, int]], more: int, price: float) -> None:
    ranking = ranked([each for each, _ in trees], [most for _, most in trees])
    given_rows = len(trees) + more
    curve = replace(STAIRS, requests=len(trees), rows=(len(trees), 8, 9, 16, 17))
    nodes = best_total(ranking, given_rows, curve, price)
    most, end = len(ranking.trees), max(0, curve.rows[-1] - given_rows)
    sizes = [size for size in range(ranking.owed, most + 1)
             if size in (0, ranking.owed) or given_rows + size in curve.rows
             or (size >= end and (size == most or (size - end) % BEYOND == 0))]
    assert nodes in sizes

    def gain(size: int) -> float:
        return float(ranking.reached[size]) - price * curve.verify_low_at(given_rows + size)

    assert gain(nodes) == pytest.approx(max(map(gain, sizes)))


def test_what_is_owed_comes_before_what_is_likelier() -> None:
    chances = [np.asarray([0.9, 0.8]), np.asarray([0.3, 0.2, 0.1])]
    assert ranked(chances, [0, 0]).shares(3, 2) == [2, 1]
    assert ranked(chances, [0, 2]).shares(3, 2) == [1, 2]
    assert ranked(chances, [0, 9]).owed == 3


@given(st.lists(st.floats(-2, 9), max_size=6).map(lambda found: sorted(found, reverse=True)),
       st.lists(st.floats(0, 20), min_size=7, max_size=7), st.floats(0.01, 2))
def test_as_many_draft_as_bring_most(worths: list[float], steps: list[float], price: float) -> None:
    draft_ms = list(np.cumsum(steps)[:len(worths) + 1])
    best = best_drafting(worths, draft_ms, price)
    nets = [sum(worths[:count]) - price * draft_ms[count] for count in range(len(worths) + 1)]
    assert nets[best] == pytest.approx(max(nets))


def test_after_the_end_of_the_curve_rows_are_given_too() -> None:
    """Somebody's own budget may be larger than all that was measured."""
    ranking = ranked([np.linspace(0.9, 0.5, 30)], [0])
    flat = replace(STAIRS, rows=(1, 17, 33), verify_low_ms=(4.0, 5.0, 6.0))
    assert best_total(ranking, 400, flat, 1.0) == 30
    assert 8 <= best_total(ranking, 400, flat, 11.0) < 30, "where the line goes on, rows have a price"
    assert best_total(ranking, 400, flat, 20.0) == 0
