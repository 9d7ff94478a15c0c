"""Builders in fixed shapes against the numpy builders: the same nodes in the same order, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.builders.best_first import best_first
from engine.builders.chain import chain
from engine.records import DraftTree, Lattice
from engine.runtime.graphs.trees import BestFirst, Chain, Marginals, PaddedTree, marginals
from tests.engine.material import lattices, sharp_lattice

ROOT = torch.tensor(7)


def on_device(lattice: Lattice) -> Marginals:
    return Marginals(torch.from_numpy(lattice.tokens[:, 0]).long(), torch.from_numpy(lattice.logprobs[:, 0]))


def as_drafted(tree: PaddedTree) -> DraftTree:
    """The nodes without the padding, which has to be as promised."""
    size, rows = int(tree.size), len(tree.tokens)
    assert tree.parents[size:].tolist() == list(range(size, rows))
    assert tree.tokens[size:].tolist() == tree.drafters[size:].tolist() == [0] * (rows - size)
    tokens, parents, drafters = (
        each[:size].numpy().astype(np.int32) for each in (tree.tokens, tree.parents, tree.drafters))
    return DraftTree(tokens, parents, -tree.costs[:size].numpy(), drafters)


def assert_equal(found: DraftTree, wanted: DraftTree) -> None:
    for name in ("tokens", "parents", "logprobs", "drafters"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), name)


def built(lattice: Lattice, nodes: int, deepest: int = 99) -> PaddedTree:
    depth, _, width = lattice.tokens.shape
    block = on_device(lattice)
    return BestFirst(nodes, width, depth, ROOT.device)(ROOT, block.tokens, block.costs(torch.tensor(deepest)))


@settings(max_examples=400)
@given(lattices(most_rows=1), st.integers(0, 60))
def test_best_first_chooses_the_numpy_builders_nodes(lattice: Lattice, nodes: int) -> None:
    assert_equal(as_drafted(built(lattice, nodes)), best_first(lattice, 7, nodes))


@pytest.mark.parametrize("nodes", [1, 2, 3, 8, 64, 255, 512])
@pytest.mark.parametrize("width", [1, 2, 5, 64])
def test_best_first_at_working_sizes(nodes: int, width: int) -> None:
    lattice = sharp_lattice(15, width, seed=nodes)
    assert_equal(as_drafted(built(lattice, nodes)), best_first(lattice, 7, nodes))


@settings(max_examples=100)
@given(lattices(most_rows=1), st.integers(1, 20), st.integers(0, 5))
def test_a_lattice_is_cut_at_the_deepest_position_there_is(lattice: Lattice, nodes: int, deepest: int) -> None:
    assert_equal(as_drafted(built(lattice, nodes, deepest)), best_first(lattice.cut(deepest), 7, nodes))


@settings(max_examples=100)
@given(lattices(most_rows=1), st.integers(0, 6), st.integers(0, 5))
def test_chain_is_the_numpy_builders(lattice: Lattice, nodes: int, deepest: int) -> None:
    block = on_device(lattice)
    found = Chain(nodes, lattice.depth)(ROOT, block.tokens, block.costs(torch.tensor(deepest)))
    assert len(found.tokens) == 1 + min(nodes, lattice.depth)
    assert_equal(as_drafted(found), chain(lattice.cut(deepest), 7, nodes))


def test_marginals_are_normalised_before_the_cut() -> None:
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    found = marginals(logits, 4)
    torch.testing.assert_close(found.logprobs, logits.log_softmax(-1).gather(-1, found.tokens))
    assert (found.logprobs.diff(dim=-1) <= 0).all()
    assert marginals(logits, 90).tokens.shape == (3, 50)
