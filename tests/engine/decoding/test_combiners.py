"""Routing in edge cases, and the joint tree against a list of prefixes; ``test_reference`` has every method's tree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.combiners import joint, routed
from engine.decoding.tree import from_nodes, root_only
from engine.records import DraftTree
from tests.engine.helpers import prefixes, trees

ROOT = 42


def drafted_tree(parents: list[int], tokens: list[int], logprobs: list[float]) -> DraftTree:
    """Return a one-drafter tree from lists of its drafted nodes."""
    return from_nodes(ROOT, np.asarray(tokens, np.int32), np.asarray(parents, np.int32),
                      np.asarray(logprobs, np.float32))


DRAFTER_1 = drafted_tree([0, 1, 0], [11, 12, 13], [-0.1, -0.5, -1.0])
DRAFTER_2 = drafted_tree([0, 0, 2], [21, 22, 23], [-0.2, -0.3, -0.9])


@pytest.mark.parametrize(("parts", "winner", "drafters"), [
    ((DRAFTER_1, DRAFTER_2), DRAFTER_2, [0, 2, 2, 2]), ((DRAFTER_2, DRAFTER_1), DRAFTER_2, [0, 1, 1, 1]),
    ((DRAFTER_1, DRAFTER_1), DRAFTER_1, [0, 1, 1, 1]), ((root_only(ROOT), root_only(ROOT)), root_only(ROOT), [0]),
    ((root_only(ROOT), DRAFTER_1), DRAFTER_1, [0, 2, 2, 2])])
def test_routing_takes_the_tree_of_the_larger_mean_confidence(
        parts: tuple[DraftTree, ...], winner: DraftTree, drafters: list[int]) -> None:
    assert DRAFTER_2.confidence > DRAFTER_1.confidence
    tree = routed(parts, 3)
    assert tree.tokens.tolist() == winner.tokens.tolist() and tree.drafters.tolist() == drafters


def union_of_prefixes(parts: tuple[DraftTree, ...], budget: int) -> list[tuple[float, tuple[int, ...], int]]:
    """List the best prefixes: log probability in the mixture, tokens and drafters."""
    shares = np.asarray([max(part.confidence, 1e-30) for part in parts]) ** 4
    terms: dict[tuple[int, ...], list[float]] = {}
    drafters: dict[tuple[int, ...], int] = {}
    for drafter, (tree, share) in enumerate(zip(parts, shares / shares.sum(), strict=True)):
        best_of_equals: dict[tuple[int, ...], float] = {}
        for score, path in prefixes(tree):
            best_of_equals[path] = max(score, best_of_equals.get(path, score))
        for path, score in best_of_equals.items():
            terms.setdefault(path, []).append(np.log(share) + score)
            drafters[path] = drafters.get(path, 0) | 1 << drafter
    best = {path: min(0.0, float(np.float32(np.logaddexp.reduce(scores)))) for path, scores in terms.items()}
    order = sorted(best, key=lambda path: (-best[path], len(path)))  # stable: the drafters' own order decides the rest
    return [(best[path], path, drafters[path]) for path in order[:budget]]


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(trees(), min_size=1, max_size=3), st.integers(0, 30))
def test_joint_is_the_union_of_prefixes(parts: list[DraftTree], budget: int) -> None:
    tree = joint(tuple(parts), budget)
    expected = union_of_prefixes(tuple(parts), budget)
    scores = [score for score, _ in prefixes(tree)]
    assert scores == pytest.approx([score for score, _, _ in expected], abs=1e-4)
    if len(set(np.round(scores, 3))) == len(scores):  # no two scores are so close that rounding decides their order
        named = zip([path for _, path in prefixes(tree)], tree.drafters[1:].tolist(), strict=True)
        assert list(named) == [(path, drafters) for _, path, drafters in expected]
    assert tree.drafters[0] == 0
    assert tree.tokens[0] == parts[0].tokens[0]
