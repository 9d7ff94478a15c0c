"""The builder ``expand`` against the published recursion over lists, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.builders import expand as module
from engine.decoding.builders.best_first import best_first
from engine.decoding.builders.expand import WIDEST, expand
from engine.records import Lattice
from tests.engine.material import Prefix, lattices, prefixes, sharp_lattice


def published(lattice: Lattice, widest: int) -> list[Prefix]:
    """Expansion, then re-ranking, as EAGLE-2 describes them, with lists of prefixes."""
    proposed: list[tuple[np.float32, tuple[int, ...]]] = []
    beam: list[tuple[np.float32, tuple[int, ...], int]] = [(np.float32(0), (), 0)]
    for depth in range(lattice.depth):
        level = []
        for score, tokens, row in beam:
            for rank in range(min(widest, lattice.tokens.shape[2])):
                total = score + lattice.logprobs[depth, row, rank]
                if np.isfinite(total):
                    level.append((total, (*tokens, int(lattice.tokens[depth, row, rank])),
                                  int(lattice.follow[depth, row, rank])))
        proposed += [(score, tokens) for score, tokens, _ in level]
        beam = sorted(level, key=lambda node: -node[0])[:widest]
    return [(float(score), tokens) for score, tokens in sorted(proposed, key=lambda node: -node[0])]


@pytest.mark.slow
@settings(max_examples=200)
@given(lattices(), st.integers(0, 40), st.integers(1, 3))
def test_expand_is_the_published_expansion_and_re_ranking(lattice: Lattice, nodes: int, widest: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WIDEST", widest)
        assert prefixes(expand(lattice, 7, nodes)) == published(lattice, widest)[:nodes]


def test_a_limit_that_binds_costs_prefixes_and_one_that_does_not_costs_none() -> None:
    wide = sharp_lattice(5, 32, seed=3)
    assert sum(expand(wide, 0, 200).logprobs) < sum(best_first(wide, 0, 200).logprobs)
    narrow = sharp_lattice(2, WIDEST, seed=3)
    assert prefixes(expand(narrow, 0, 60)) == prefixes(best_first(narrow, 0, 60))
