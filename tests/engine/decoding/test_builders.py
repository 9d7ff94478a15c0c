"""Builders against brute force, published recursions and edge cases; depths, masks, paths and packing of trees against
their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding import builders
from engine.decoding.builders import Builder, best_first, chain, expand, full
from engine.decoding.tree import depths, from_nodes, pack, path_to, root_only, select
from engine.records import DraftTree, Lattice
from tests.engine.helpers import (
    BUILDERS,
    Prefix,
    all_prefixes,
    ancestors,
    are_the_best,
    lattices,
    prefixes,
    sharp_lattice,
    trees,
)


@pytest.mark.slow
@settings(max_examples=200)
@given(lattices(), st.integers(0, 60))
def test_best_first_takes_the_best_of_all_prefixes(lattice: Lattice, nodes: int) -> None:
    assert prefixes(best_first(lattice, 7, nodes)) == all_prefixes(lattice)[:nodes]


@pytest.mark.parametrize(("nodes", "width"), [(15, 1), (64, 2), (256, 5), (1024, 64)])
def test_best_first_takes_the_best_prefixes_at_usual_sizes(nodes: int, width: int) -> None:
    lattice = sharp_lattice(15, width, seed=nodes)
    assert are_the_best(prefixes(best_first(lattice, 0, nodes)), lattice, nodes)


@pytest.mark.parametrize("build", BUILDERS)
def test_an_empty_lattice_or_no_nodes_give_the_root_alone(build: Builder) -> None:
    lattice = sharp_lattice(3, 4, seed=0)
    for tree in (build(lattice, 9, 0), build(lattice.cut(0), 9, 5)):
        arrays = (tree.tokens, tree.parents, tree.logprobs, tree.drafters)
        assert [values.tolist() for values in arrays] == [[9], [0], [0], [0]]
        assert [values.dtype for values in arrays] == ["i4", "i4", "f4", "i4"]


@given(lattices(), st.integers(0, 6))
def test_chain_follows_rank_one(lattice: Lattice, nodes: int) -> None:
    assert prefixes(chain(lattice, 3, nodes)) == all_prefixes(lattice.narrowed(1).cut(nodes))


def expanded(lattice: Lattice, width: int, depth: int) -> list[Prefix]:
    """List the prefixes in the order of paper 003's recursion: a node, then its subtrees in order."""
    visited: list[Prefix] = []

    def visit(level: int, row: int, score: np.float32, tokens: tuple[int, ...]) -> None:
        for rank in range(width if level < depth else 0):
            total = score + lattice.logprobs[level, row, rank]
            below = (*tokens, int(lattice.tokens[level, row, rank]))
            if np.isfinite(total):
                visited.append((float(total), below))
                visit(level + 1, int(lattice.follow[level, row, rank]), total, below)

    visit(0, 0, np.float32(0), ())
    return visited


@given(lattices(), st.integers(1, 40))
def test_full_equals_the_recursion_of_the_paper(lattice: Lattice, nodes: int) -> None:
    width = min(2, lattice.tokens.shape[2], nodes)
    sizes = [sum(width**level for level in range(1, depth + 1)) for depth in range(lattice.depth + 1)]
    depth = max(depth for depth, size in enumerate(sizes) if size <= nodes)
    assert prefixes(full(lattice, 3, nodes)) == expanded(lattice, width, depth)


@settings(max_examples=50)
@given(lattices(), st.integers(0, 20), st.sampled_from(BUILDERS))
def test_builders_stay_within_the_budget_and_leave_the_lattice_alone(
        lattice: Lattice, nodes: int, build: Builder) -> None:
    before = {name: values.copy() for name, values in vars(lattice).items()}
    tree = build(lattice, 2, nodes)
    assert len(tree) <= nodes + 1 and len({path for _, path in prefixes(tree)}) == len(tree) - 1
    assert all(np.array_equal(before[name], values) for name, values in vars(lattice).items())


def published(lattice: Lattice, width: int) -> list[Prefix]:
    """List the prefixes of EAGLE-2's expansion and re-ranking, by lists."""
    proposed: list[tuple[np.float32, tuple[int, ...]]] = []
    beam: list[tuple[np.float32, tuple[int, ...], int]] = [(np.float32(0), (), 0)]
    for depth in range(lattice.depth):
        level = []
        for score, tokens, row in beam:
            for rank in range(min(width, lattice.tokens.shape[2])):
                total = score + lattice.logprobs[depth, row, rank]
                if np.isfinite(total):
                    level.append((total, (*tokens, int(lattice.tokens[depth, row, rank])),
                                  int(lattice.follow[depth, row, rank])))
        proposed += [(score, tokens) for score, tokens, _ in level]
        beam = sorted(level, key=lambda node: -node[0])[:width]
    return [(float(score), tokens) for score, tokens in sorted(proposed, key=lambda node: -node[0])]


@pytest.mark.slow
@given(lattices(), st.integers(0, 40), st.integers(1, 3))
def test_expand_equals_the_published_expansion_and_re_ranking(lattice: Lattice, nodes: int, width: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builders, "EXPAND_WIDTH", width)
        assert prefixes(expand(lattice, 7, nodes)) == published(lattice, width)[:nodes]


def climb(tree: DraftTree, node: int) -> list[int]:
    """Return a node and its ancestors, the root last."""
    above = [node]
    while above[-1] != 0:
        above.append(int(tree.parents[above[-1]]))
    return above


@given(trees())
def test_depths_masks_positions_and_paths_follow_the_parents(tree: DraftTree) -> None:
    climbs, packed = [climb(tree, node) for node in range(len(tree))], pack(tree, 100)
    assert depths(tree.parents).tolist() == [len(above) - 1 for above in climbs]
    assert packed.positions.tolist() == [100 + len(above) - 1 for above in climbs]
    assert packed.positions.dtype == np.int32 and packed.visible.dtype == np.bool_
    np.testing.assert_array_equal(packed.visible, ancestors(tree.parents))
    assert packed.tokens.tolist() == tree.tokens.tolist() and packed.parents.tolist() == tree.parents.tolist()
    for node, above in enumerate(climbs):
        assert np.flatnonzero(packed.visible[node]).tolist() == sorted(above)
        assert path_to(tree.parents, node).tolist() == above[::-1]


@given(trees(), st.data())
def test_selecting_a_prefix_closed_set_keeps_prefixes(tree: DraftTree, data: st.DataObject) -> None:
    wanted = {0}
    for node in range(1, len(tree)):
        if int(tree.parents[node]) in wanted and data.draw(st.booleans()):
            wanted.add(node)
    nodes = np.asarray(sorted(wanted), np.int32)
    whole = prefixes(tree)
    assert prefixes(select(tree, nodes)) == [whole[node - 1] for node in nodes[1:]]


def test_confidence_is_the_mean_probability_of_drafted_nodes() -> None:
    halves = from_nodes(5, np.asarray([1, 2], np.int32), np.asarray([0, 1], np.int32), np.log([0.5, 0.25]).astype("f4"))
    assert halves.confidence == np.float32(0.375) and root_only(5).confidence == 0
    assert halves.drafters.tolist() == [0, 1, 1]
