"""Depths, masks, path matrices and packing against their definitions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.decoding.tree import ancestors, depths, pack, path_to, plant, select
from engine.records import DraftTree
from tests.engine.material import prefixes, trees


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
    mask = ancestors(tree.parents)
    for node, above in enumerate(climbs):
        assert set(np.flatnonzero(mask[node]).tolist()) == set(above)
        assert path_to(tree.parents, node).tolist() == above[::-1]


@given(trees(), st.integers(0, 30))
def test_packing_puts_nodes_at_their_depth_and_hides_the_padding(tree: DraftTree, rows: int) -> None:
    packed = pack(tree, 100, rows)
    assert packed.size == len(tree)
    assert len(packed.tokens) == len(packed.positions) == len(packed.parents) == max(rows, len(tree))
    assert packed.positions[:len(tree)].tolist() == [100 + len(climb(tree, node)) - 1 for node in range(len(tree))]
    assert packed.tokens[:len(tree)].tolist() == tree.tokens.tolist()
    for row in range(len(tree), rows):
        assert packed.parents[row] == row
        assert row not in packed.parents[:row]


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
