"""Combination, packing and the walk in fixed shapes against their numpy counterparts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.acceptance.walk import longest_path
from engine.builders.best_first import best_first
from engine.combiners import COMBINERS
from engine.combiners.joint import weights as numpy_weights
from engine.methods import halves
from engine.records import DraftTree, Lattice
from engine.runtime.graphs.combine import COMBINE, confidence, mixed, weights
from engine.runtime.graphs.rows import TextEnd, ancestors, depths_of, kept, packed
from engine.runtime.graphs.trees import PaddedTree
from engine.trees.tree import ancestors as numpy_ancestors
from engine.trees.tree import depths
from tests.engine.material import lattices, sharp_lattice, trees
from tests.engine.runtime.graphs.test_trees import as_drafted, assert_equal, built

Pair = tuple[Lattice, Lattice]
FEW_TOKENS = lattices(most_rows=1, vocabulary=4)  # the drafters often propose the same


@pytest.mark.parametrize("name", COMBINE)
@settings(max_examples=150)
@given(FEW_TOKENS, FEW_TOKENS, st.integers(0, 24))
def test_combiners_choose_the_numpy_combiners_nodes(name: str, first: Lattice, second: Lattice, budget: int) -> None:
    shares = halves(budget, 2) if name == "merged" else (budget, budget)
    wanted = tuple(best_first(each, 7, nodes) for each, nodes in zip((first, second), shares, strict=True))
    given_trees = [built(each, nodes) for each, nodes in zip((first, second), shares, strict=True)]
    # the masses of equal nodes added up in another order differ in the last bit: joint gets the same weights
    found = (mixed(given_trees, budget, torch.from_numpy(numpy_weights(wanted))) if name == "joint"
             else COMBINE[name](given_trees, budget))
    assert_equal(as_drafted(found), COMBINERS[name](wanted, budget))


@pytest.mark.parametrize("budget", [8, 64, 200])
@pytest.mark.parametrize("name", COMBINE)
def test_combiners_at_working_sizes(name: str, budget: int) -> None:
    lattices_ = [sharp_lattice(15, budget, seed, vocabulary=256) for seed in (budget, budget + 1)]
    lattices_[1].logprobs[:7], lattices_[1].tokens[:7] = lattices_[0].logprobs[:7], lattices_[0].tokens[:7]
    found = COMBINE[name]([built(each, budget) for each in lattices_], budget)
    assert_equal(as_drafted(found), COMBINERS[name](tuple(best_first(each, 7, budget) for each in lattices_), budget))


@settings(max_examples=50)
@given(FEW_TOKENS, FEW_TOKENS, st.integers(0, 12))
def test_confidence_and_weights(first: Lattice, second: Lattice, nodes: int) -> None:
    wanted = [best_first(each, 7, nodes) for each in (first, second)]
    found = [built(each, nodes) for each in (first, second)]
    assert [float(confidence(tree)) for tree in found] == pytest.approx([tree.confidence for tree in wanted])
    assert weights(found).tolist() == pytest.approx(numpy_weights(wanted).tolist(), abs=1e-5)


def padded(tree: DraftTree, rows: int) -> PaddedTree:
    """Any tree in ``rows`` rows."""
    padding = rows - len(tree)
    own = np.arange(len(tree), rows)
    return PaddedTree(
        torch.from_numpy(np.concatenate([tree.tokens, np.zeros(padding, np.int32)])).long(),
        torch.from_numpy(np.concatenate([tree.parents, own])).long(),
        torch.from_numpy(np.concatenate([-tree.logprobs, np.full(padding, np.inf, np.float32)])),
        torch.from_numpy(np.concatenate([tree.drafters, np.zeros(padding, np.int32)])).long(), torch.tensor(len(tree)))


@given(trees(), st.integers(0, 5))
def test_masks_and_depths(tree: DraftTree, padding: int) -> None:
    whole = padded(tree, len(tree) + padding)
    deepest = int(depths(tree.parents).max())
    rows = packed(whole, deepest)
    wanted = numpy_ancestors(whole.parents.numpy().astype(np.int32))
    np.testing.assert_array_equal(rows.seen.numpy(), wanted)
    np.testing.assert_array_equal(ancestors(whole.parents, deepest).numpy(), wanted)
    expected = [*depths(tree.parents).tolist(), *[0] * padding]
    assert rows.depths.tolist() == depths_of(whole.parents).tolist() == expected


@settings(max_examples=300)
@given(trees(), st.integers(0, 5), st.integers(0, 2**15 - 1), st.integers(1, 6), st.sets(st.integers(0, 2)))
def test_the_walk_is_the_longest_accepted_path_up_to_the_end_of_the_text(
        tree: DraftTree, padding: int, bits: int, left: int, stop_ids: set[int]) -> None:
    whole = padded(tree, len(tree) + padding)
    accepted = np.asarray([bits >> row & 1 for row in range(len(whole.tokens))], np.bool_)
    choice = torch.arange(len(whole.tokens)) + 100
    path = longest_path(tree.parents, accepted[:len(tree)]).tolist()
    tokens = tree.tokens[path].tolist()
    length = min([left, *(place for place, token in enumerate(tokens) if token in stop_ids)])
    found = kept(whole, packed(whole, 14), choice, torch.from_numpy(accepted),
                 TextEnd(torch.tensor(sorted(stop_ids), dtype=torch.long), torch.tensor(left), 14))
    assert found.keep.tolist()[:len(path)] == path
    assert int(found.count) == min(length, len(path))
    assert int(found.bonus) == (tokens[length] if length < len(path) else 100 + path[-1])
