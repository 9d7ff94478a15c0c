"""Acceptance: the walk against a naive one, the greedy limit of every rule, and what the trials record."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decoding.acceptance import AcceptanceRule, ratio, sequential, walk
from engine.decoding.builders import best_first
from engine.decoding.combiners import merged
from engine.decoding.protocols import trial_draws
from engine.decoding.tree import from_nodes, pack, root_only
from engine.records import Acceptance, DraftTree, Integers, Sampling, Verification
from tests.engine.helpers import ACCEPTANCE_RULES, trees
from tests.engine.toy import ToyDrafter, ToyTarget

VOCABULARY = 3


class FixedLaw:
    """Return the same distribution over three tokens at every row."""

    def __init__(self, *law: float) -> None:
        self.law = np.asarray(law, np.float32)

    def redraw(self, row: int, tokens: Integers, masses: np.ndarray, draw: float) -> int:
        left = self.law.copy()
        left[tokens] -= masses
        left = np.maximum(left, 0) if (left > 0).any() else self.law
        return int(np.searchsorted(left.cumsum() / left.sum(), draw, side="right"))

    def verified(self, tree: DraftTree, choice: list[int] | None = None) -> Verification:
        """Return the verification of a tree; choices default to 0."""
        with np.errstate(divide="ignore"):
            processed = np.log(self.law)[tree.tokens]
        zeros = np.zeros(len(tree), np.float32)
        return Verification(np.asarray(choice or [0] * len(tree), np.int32), zeros, zeros, zeros, processed, processed)


CERTAIN, UNSURE = FixedLaw(1, 0, 0), FixedLaw(0.2, 0.5, 0.3)


def accept(rule: AcceptanceRule, tree: DraftTree, target: FixedLaw = UNSURE, choice: list[int] | None = None,
           random: np.random.Generator | None = None) -> Acceptance:
    acceptance = rule(tree, target.verified(tree, choice), target.redraw, random or np.random.default_rng(0))
    assert acceptance.keep[0] == 0 and acceptance.keep.dtype == np.int32
    assert (tree.parents[acceptance.keep[1:]] == acceptance.keep[:-1]).all(), "a path"
    return acceptance


@given(trees(vocabulary=VOCABULARY), st.data())
def test_the_walk_ends_at_the_deepest_node_on_the_chosen_path(tree: DraftTree, data: st.DataObject) -> None:
    choice = data.draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=len(tree), max_size=len(tree)))
    acceptance = accept(walk, tree, CERTAIN, choice)
    lengths = [0] * len(tree)  # the length of each node's path, −1 if a step was not chosen
    for node in range(1, len(tree)):
        above = int(tree.parents[node])
        lengths[node] = lengths[above] + 1 if lengths[above] >= 0 and tree.tokens[node] == choice[above] else -1
    assert acceptance.keep[-1] == int(np.argmax(lengths)) and acceptance.bonus == choice[acceptance.keep[-1]]


@pytest.mark.parametrize("rule", ACCEPTANCE_RULES)
def test_at_temperature_0_every_rule_is_the_greedy_walk(rule: AcceptanceRule) -> None:
    target, random, lengths = ToyTarget(), np.random.default_rng(5), []
    drafters = [ToyDrafter(target, 4, seed=seed) for seed in (0, 1)]
    for _ in range(60):  # trees of two drafters after a prompt, duplicates included
        root, features = target.prefill(random.integers(0, 8, 6).tolist(), 64, Sampling())
        for drafter in drafters:
            drafter.begin(64)
            drafter.observe(features, features)
        tree = merged(tuple(best_first(drafter.draft(root, 12), root, 12) for drafter in drafters), 24)
        verification = target.verify(pack(tree, 6))
        kept, expected = (apply(tree, verification, target.redraw, trial_draws(1)) for apply in (rule, walk))
        assert tree.tokens[kept.keep].tolist() == tree.tokens[expected.keep][:len(kept.keep)].tolist()
        assert verification.choice[kept.keep[-1]] == kept.bonus
        lengths.append((len(kept.keep), len(expected.keep)))
    shorter = sum(length < walked for length, walked in lengths)
    assert shorter <= (20 if rule is sequential else 0)  # it keeps the first of two equal siblings
    assert max(length for length, _ in lengths) >= 4


def siblings(*tokens: int) -> DraftTree:
    """Return a root with these children, each with a child of token 0."""
    count = len(tokens)
    return from_nodes(0, np.asarray([*tokens, *[0] * count], np.int32),
                 np.asarray([0] * count + list(range(1, count + 1)), np.int32),
                 np.log(np.asarray([0.4] * count + [0.2] * count, np.float32)))


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [[1], [1, 2], [2, 1, 0], [1, 1], [1, 1, 2, 1, 2]])
def test_sequential_accepts_each_token_with_its_probability(tokens: list[int]) -> None:
    tree, random, draws = siblings(*tokens), np.random.default_rng(11), 6000
    runs = [accept(sequential, tree, random=random) for _ in range(draws)]
    counts = Counter(tree.tokens[run.keep[1]] if len(run.keep) > 1 else run.bonus for run in runs)
    shares = np.asarray([counts[token] / draws for token in range(VOCABULARY)])
    assert np.abs(shares - UNSURE.law).max() < 0.03  # 4.6 standard errors


def test_sequential_records_its_trials() -> None:
    tree, random, last = siblings(1, 1, 2), np.random.default_rng(0), set()
    for _ in range(200):
        acceptance = accept(sequential, tree, random=random)
        trials = acceptance.trials
        assert trials is not None and ((trials.draws >= 0) & (trials.draws < 1)).all()
        assert trials.nodes[trials.draws < trials.chances].tolist() == acceptance.keep[1:].tolist()
        first = trials.nodes <= 3
        assert np.allclose(trials.chances[first], np.asarray([0.5, 0.0, 0.6])[trials.nodes[first] - 1])
        last.add(int(acceptance.keep[-1]))
    assert not {2, 5} & last and len(last) >= 3


def test_a_leaf_takes_the_targets_choice_and_a_rejected_node_a_redraw() -> None:
    leaf = accept(sequential, root_only(0), choice=[2])
    assert (leaf.keep.tolist(), leaf.bonus) == ([0], 2)
    tree = from_nodes(0, np.asarray([1], np.int32), np.zeros(1, np.int32), np.zeros(1, np.float32))
    failed = accept(sequential, tree, CERTAIN, [1, 1])
    assert (failed.keep.tolist(), failed.bonus) == ([0], 0)


def test_ratio_probabilities_are_p_over_q_up_to_one() -> None:
    trials = accept(ratio, siblings(1, 2)).trials
    assert trials is not None and trials.nodes.tolist() == [1, 2, 3, 4]
    assert np.allclose(trials.chances, [1.0, 0.75, 0.4, 0.4])
