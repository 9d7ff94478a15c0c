"""Acceptance: the walk against a naive one, the greedy limit of every rule, and what the trials record."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.acceptance import ACCEPTANCE_RULES
from engine.decoding.acceptance.ratio import ratio
from engine.decoding.acceptance.sequential import sequential
from engine.decoding.acceptance.walk import longest_path, walk
from engine.decoding.builders.best_first import best_first
from engine.decoding.combiners.merged import merged
from engine.decoding.plan import position_draws, trial_draws
from engine.decoding.tree import bare, pack, plant
from engine.records import Acceptance, DraftTree, Integers, Sampling, Verification
from tests.engine.material import trees
from tests.engine.toy import ToyDrafter, ToyTarget

VOCABULARY = 3


class FixedLaw:
    """A target that says the same at every row: the law p over three tokens."""

    def __init__(self, law: list[float]) -> None:
        self.law = np.asarray(law, np.float32)

    def redraw(self, row: int, tokens: Integers, masses: np.ndarray, draw: float) -> int:
        left = self.law.copy()
        left[tokens] -= masses
        left = np.maximum(left, 0) if (left > 0).any() else self.law
        return int(np.searchsorted(left.cumsum() / left.sum(), draw, side="right"))

    def verified(self, tree: DraftTree, choice: list[int] | None = None) -> Verification:
        """What a pass over the tree reports; choices are 0 where they are not given."""
        with np.errstate(divide="ignore"):
            processed = np.log(self.law)[tree.tokens]
        zeros = np.zeros(len(tree), np.float32)
        chosen = np.asarray(choice or [0] * len(tree), np.int32)
        return Verification(chosen, zeros, zeros, zeros, processed, processed)


@given(trees(vocabulary=VOCABULARY), st.data())
def test_the_walk_is_the_deepest_node_whose_every_step_was_chosen(tree: DraftTree, data: st.DataObject) -> None:
    choice = data.draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=len(tree), max_size=len(tree)))
    target = FixedLaw([1, 0, 0])
    found = walk(tree, target.verified(tree, choice), target, trial_draws(0))
    lengths = [0] * len(tree)  # of the path down to each node, −1 where a step was not chosen
    for node in range(1, len(tree)):
        above = int(tree.parents[node])
        lengths[node] = lengths[above] + 1 if lengths[above] >= 0 and tree.tokens[node] == choice[above] else -1
    assert found.keep[-1] == int(np.argmax(lengths))
    assert found.keep[0] == 0
    assert (tree.parents[found.keep[1:]] == found.keep[:-1]).all()
    assert found.bonus == choice[found.keep[-1]]
    assert found.keep.dtype == np.int32


def test_of_two_equal_siblings_the_deeper_match_wins_and_then_the_first() -> None:
    parents = np.asarray([0, 0, 0, 2, 0], np.int32)
    assert longest_path(parents, np.asarray([True] * 5)).tolist() == [0, 2, 3]
    assert longest_path(parents, np.asarray([True, True, True, False, True])).tolist() == [0, 1]
    assert longest_path(parents, np.asarray([False] * 5)).tolist() == [0]
    assert longest_path(parents, np.asarray([True, True, False, True, False])).tolist() == [0, 1]


def drafted(target: ToyTarget, prompt: list[int], budget: int) -> tuple[DraftTree, Verification]:
    """A merged tree of two drafters after a prompt, duplicates included, and the target's say on it."""
    drafters = [ToyDrafter(target, 4, seed=seed) for seed in (0, 1)]
    root, features = target.prefill(prompt, 64, Sampling())
    for drafter in drafters:
        drafter.begin(64)
        drafter.observe(np.asarray(prompt, np.int32), features)
    tree = merged(tuple(best_first(drafter.draft(root, budget), root, budget) for drafter in drafters), 2 * budget)
    return tree, target.verify(pack(tree, len(prompt)))


@pytest.mark.parametrize("rule", list(ACCEPTANCE_RULES))
def test_at_temperature_0_every_rule_is_the_greedy_walk(rule: str) -> None:
    target, random = ToyTarget(), np.random.default_rng(5)
    lengths = []
    for _ in range(60):
        tree, said = drafted(target, random.integers(0, 8, 6).tolist(), 12)
        found = ACCEPTANCE_RULES[rule](tree, said, target, trial_draws(1))
        expected = walk(tree, said, target, trial_draws(1))
        assert tree.tokens[found.keep].tolist() == tree.tokens[expected.keep][:len(found.keep)].tolist()
        assert said.choice[found.keep[-1]] == found.bonus
        lengths.append((len(found.keep), len(expected.keep)))
    shorter = sum(one < other for one, other in lengths)
    assert shorter <= (20 if rule == "sequential" else 0)  # it commits to the first of two equal siblings
    assert max(one for one, _ in lengths) >= 4


def siblings(tokens: list[int]) -> DraftTree:
    """A root with these children, each with an own child of token 0."""
    count = len(tokens)
    return plant(0, np.asarray(tokens + [0] * count, np.int32),
                 np.asarray([0] * count + list(range(1, count + 1)), np.int32),
                 np.log(np.asarray([0.4] * count + [0.2] * count, np.float32)))


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [[1], [1, 2], [2, 1, 0], [1, 1], [1, 1, 2, 1, 2]])
def test_sequential_gives_each_next_token_its_own_chance(tokens: list[int]) -> None:
    law, draws, random = [0.2, 0.5, 0.3], 6000, np.random.default_rng(11)
    tree, target, counts = siblings(tokens), FixedLaw(law), np.zeros(VOCABULARY)
    for _ in range(draws):  # the first token behind the root is counted
        found = sequential(tree, target.verified(tree), target, random)
        counts[tree.tokens[found.keep[1]] if len(found.keep) > 1 else found.bonus] += 1
    assert np.abs(counts / draws - law).max() < 0.03  # 4.6 standard errors


def test_sequential_records_what_it_compared() -> None:
    tree, target, random = siblings([1, 1, 2]), FixedLaw([0.2, 0.5, 0.3]), np.random.default_rng(0)
    taken = set()
    for _ in range(200):
        found = sequential(tree, target.verified(tree), target, random)
        assert found.trials is not None
        nodes, chances, passed = found.trials.nodes, found.trials.chances, found.trials.draws < found.trials.chances
        assert nodes[passed].tolist() == found.keep[1:].tolist()
        first = nodes <= 3
        expected = np.asarray([0.5, 0.0, 0.6], np.float32)
        assert np.allclose(chances[first], expected[nodes[first] - 1])
        assert ((found.trials.draws >= 0) & (found.trials.draws < 1)).all()
        taken |= {int(found.keep[-1])}
    assert 2 not in taken
    assert 5 not in taken
    assert len(taken) >= 3


def test_a_leaf_takes_the_targets_choice_and_a_failed_node_never_does() -> None:
    leaf = bare(0)
    target = FixedLaw([0.2, 0.5, 0.3])
    found = sequential(leaf, target.verified(leaf, [2]), target, np.random.default_rng(0))
    assert (found.keep.tolist(), found.bonus) == ([0], 2)
    tree = plant(0, np.asarray([1], np.int32), np.zeros(1, np.int32), np.zeros(1, np.float32))
    sure = FixedLaw([1, 0, 0])
    found = sequential(tree, sure.verified(tree, [1, 1]), sure, np.random.default_rng(0))
    assert (found.keep.tolist(), found.bonus) == ([0], 0)


def test_ratio_chances_are_p_over_q_capped() -> None:
    tree, target = siblings([1, 2]), FixedLaw([0.2, 0.5, 0.3])
    found = ratio(tree, target.verified(tree), target, np.random.default_rng(0))
    assert found.trials is not None
    assert found.trials.nodes.tolist() == [1, 2, 3, 4]
    assert np.allclose(found.trials.chances, [1.0, 0.75, 0.4, 0.4])


@settings(max_examples=40)
@given(trees(vocabulary=VOCABULARY), st.sampled_from(list(ACCEPTANCE_RULES)), st.integers(0, 99))
def test_every_rule_keeps_a_path_and_repeats_itself_from_its_seed(tree: DraftTree, rule: str, seed: int) -> None:
    target = FixedLaw([0.2, 0.5, 0.3])

    def once() -> Acceptance:
        return ACCEPTANCE_RULES[rule](tree, target.verified(tree), target, trial_draws(seed))

    found = once()
    assert found.keep[0] == 0
    assert (tree.parents[found.keep[1:]] == found.keep[:-1]).all()
    assert 0 <= found.bonus < VOCABULARY
    assert (found.keep.tolist(), found.bonus) == (once().keep.tolist(), once().bonus)


def test_trials_and_positions_draw_from_independent_streams() -> None:
    trials = trial_draws(7).random(64)
    assert not np.isin(trials, position_draws(7, 4096)).any()
    assert np.array_equal(trials, trial_draws(7).random(64))
    assert np.array_equal(position_draws(7, 10), position_draws(7, 4096)[:10])
