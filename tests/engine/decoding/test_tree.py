"""Depths, masks, path matrices and packing against their definitions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.decoding.tree import depths, pack, path_to, plant, select
from engine.records import DraftTree
from tests.engine.material import ancestors, prefixes, trees


def climb(tree: DraftTree, node: int) -> list[int]:
    """A node and its ancestors, the root last."""
    above = [node]
    while above[-1] != 0:
        above.append(int(tree.parents[above[-1]]))
    return above


@given(trees())
def test_depths_masks_and_paths_follow_the_parents(tree: DraftTree) -> None:
    climbs = [climb(tree, node) for node in range(len(tree))]
    assert depths(tree.parents).tolist() == [len(above) - 1 for above in climbs]
    mask = pack(tree, 0).seen
    np.testing.assert_array_equal(mask, ancestors(tree.parents))
    for node, above in enumerate(climbs):
        assert set(np.flatnonzero(mask[node]).tolist()) == set(above)
        assert path_to(tree.parents, node).tolist() == above[::-1]


@given(trees())
def test_packing_puts_nodes_at_their_depth(tree: DraftTree) -> None:
    packed = pack(tree, 100)
    assert packed.positions.tolist() == [100 + len(climb(tree, node)) - 1 for node in range(len(tree))]
    assert packed.tokens.tolist() == tree.tokens.tolist() and packed.parents.tolist() == tree.parents.tolist()
    assert packed.positions.dtype == np.int32 and packed.seen.dtype == np.bool_


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
    halves = plant(5, np.asarray([1, 2], np.int32), np.asarray([0, 1], np.int32), np.log([0.5, 0.25]).astype("f4"))
    assert halves.confidence == np.float32(0.375)
    assert plant(5, *(np.zeros(0, np.int32),) * 2, np.zeros(0, np.float32)).confidence == 0
    assert halves.drafters.tolist() == [0, 1, 1]
