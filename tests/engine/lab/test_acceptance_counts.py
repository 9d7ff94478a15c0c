"""Expected lengths and acceptance by depth and rank, against readings by hand and by brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from engine.decoding.methods import METHODS
from engine.decoding.tree import path_to
from engine.lab.statistics import RANKS, AcceptanceTally, ended_by_text, expected_length, pooled
from engine.records import DraftTree, Lattice, PromptRequest, Round, Sampling
from tests.engine.lab.scripted import rounds_of
from tests.engine.material import trees


def prefix(tree: DraftTree, node: int) -> tuple[int, ...]:
    """The tokens from behind the root down to a node."""
    return tuple(tree.tokens[path_to(tree.parents, node)[1:]].tolist())


@pytest.mark.slow
@given(trees())
def test_the_expected_length_counts_every_distinct_prefix_once(tree: DraftTree) -> None:
    best: dict[tuple[int, ...], float] = {}
    for node in range(1, len(tree)):
        own = prefix(tree, node)
        best[own] = max(best.get(own, 0), float(np.exp(tree.logprobs[node])))
    assert expected_length(tree) == pytest.approx(1 + sum(best.values()))


def tallied(rounds: list[Round]) -> dict[tuple[int, int], list[int]]:
    """Proposed and accepted by (depth, rank), slowly: from the prefixes of single-row lattices."""
    found: dict[tuple[int, int], list[int]] = {}
    for made in rounds:
        kept = tuple(made.committed[1:].tolist())
        proposed = {prefix(made.tree, node): 0 for node in range(1, len(made.tree))}
        for own in proposed:
            if own[:-1] != kept[:len(own) - 1]:
                continue
            drafters = {drafter for node in range(1, len(made.tree)) if prefix(made.tree, node) == own
                        for drafter in range(len(made.drafts)) if made.tree.drafters[node] >> drafter & 1}
            rank = min(made.drafts[drafter].tokens[len(own) - 1, 0].tolist().index(own[-1]) for drafter in drafters)
            cell = found.setdefault((len(own), min(rank, RANKS - 1)), [0, 0])
            cell[0] += 1
            cell[1] += own == kept[:len(own)]
    return found


@pytest.mark.parametrize("method", ["dflash", "ddtree", "routed", "merged", "joint"])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=1)], ids=["greedy", "warm"])
def test_acceptance_agrees_with_a_slow_count(method: str, sampling: Sampling) -> None:
    rounds = [made for made in rounds_of(PromptRequest("a long walk", method=method, budget=20, max_tokens=60,
                                             sampling=sampling)) if not ended_by_text(made)]
    assert len(rounds) > 8
    tally = AcceptanceTally()
    for made in rounds:
        tally.add(made)
    counts = tally.counts()
    found = {(depth, rank): [proposed, counts.accepted[depth - 1][rank]]
             for depth, row in enumerate(counts.proposed, 1) for rank, proposed in enumerate(row) if proposed}
    assert found == tallied(rounds)
    halves = [AcceptanceTally(), AcceptanceTally()]
    for index, made in enumerate(rounds):
        halves[index % 2].add(made)
    assert pooled([half.counts() for half in halves]) == counts
    assert sum(map(sum, counts.accepted)) == sum(len(made.acceptance.keep) - 1 for made in rounds)
    assert counts.reached[0] == len(rounds)
    assert counts.reached[1] == sum(len(made.acceptance.keep) > 1 for made in rounds)


def test_a_rank_is_read_in_the_row_that_the_path_leads_to() -> None:
    tokens = np.asarray([[[5, 6], [0, 0]], [[7, 8], [8, 7]]], np.int32)
    follow = np.asarray([[[0, 1], [0, 0]], [[0, 0], [0, 0]]], np.int32)
    lattice = Lattice(tokens, np.full((2, 2, 2), -1, np.float32), follow)
    made = rounds_of(PromptRequest("x", method="ddtree", budget=2, max_tokens=4))[0]
    tree = DraftTree(np.asarray([1, 6, 8], np.int32), np.asarray([0, 0, 1], np.int32),
                     np.asarray([0, -1, -2], np.float32), np.asarray([0, 1, 1], np.int32))
    made = replace(made, drafts=(lattice,), tree=tree, acceptance=replace(
        made.acceptance, keep=np.asarray([0, 1, 2], np.int32)))
    tally = AcceptanceTally()
    tally.add(made)
    # 6 is second of the first row, and leads to the row in which 8 is first
    assert [row[:2] for row in tally.counts().accepted] == [(0, 1), (1, 0)]


def test_the_end_of_the_text_is_told_from_the_end_of_the_tree() -> None:
    for method in ("dflash", "ddtree", "merged", "joint", "nanogpt"):
        assert METHODS[method].lossless
        long = rounds_of(PromptRequest("where does it end", method=method, budget=16, max_tokens=40))
        assert not any(map(ended_by_text, long[:-1]))
    whole = next(made for made in long if len(made.acceptance.keep) > 2)
    keep = whole.acceptance.keep
    short = replace(whole.acceptance, keep=keep[:2], bonus=int(whole.tree.tokens[keep[2]]))
    assert ended_by_text(replace(whole, acceptance=short))
