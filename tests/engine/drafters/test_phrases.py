"""The phrase drafter: its table, its distribution, the tree it grows, and the error for an unreadable table."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_tensors
from transformers import LlamaConfig

from engine.decoding.builders import best_first
from engine.decoding.protocols import Drafter
from engine.drafters.kinds import TargetFacts, plan_drafter
from engine.drafters.phrases import MIN_PROBABILITY, PhraseDrafter, read_table, table_row
from engine.errors import RigError
from recipes.own_answers.phrases import export, orders_of
from recipes.own_answers.shards import FeatureShard

VOCABULARY = 9


def shard(tokens: list[int], prompt: int) -> FeatureShard:
    """Return a conversation in which the target was certain of each token."""
    likely = np.roll(np.array(tokens, np.int32), -1)[:, None]
    return FeatureShard(
        np.array(tokens, np.int32), likely, np.zeros((len(tokens), 1), np.float16),
        np.array([[0, prompt, len(tokens)]], np.int64))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide a folder with a table of one short answer."""
    export(orders_of([shard([1, 2, 3, 4, 2, 3, 5], 1)]), tmp_path, VOCABULARY, {})
    return tmp_path


def test_a_table_lists_what_followed_and_backs_off(folder: Path) -> None:
    table = read_table(folder, VOCABULARY)
    assert [token for token, _ in table_row(table, (1, 2, 3))] == [4, 5], "4 was seen after three tokens, 5 after two"
    assert {token for token, _ in table_row(table, (8, 2, 3))} == {4, 5}, "three unknown tokens back off to two"
    assert table_row(table, (8, 8, 8)) == [] and table_row(table, ()) == []
    (_, sure), (_, other) = table_row(table, (1, 2, 3))
    # one count after one token (of two), that weighs as four counts after two tokens, and those as two after three
    one = 1 / (2 + 16)
    two = (1 + 4 * one) / (2 + 4)
    assert sure == pytest.approx((1 + 2 * two) / (1 + 2), rel=0.04)
    assert other == pytest.approx(2 * two / (1 + 2), rel=0.04)


def test_only_answers_are_counted(folder: Path) -> None:
    export(orders_of([shard([1, 2, 3, 4, 2, 3, 5], 5)]), folder, VOCABULARY, {})
    table = read_table(folder, VOCABULARY)
    assert table_row(table, (1,)) == [] and table_row(table, (2, 3)) != [] and table_row(table, (2,)) != []


def test_a_shard_without_a_selected_answer_adds_nothing() -> None:
    answers = [shard([1, 2, 3], 1), shard([1, 4, 5, 6], 1)]
    (one, *_), (alone, *_) = orders_of(answers, lambda answer, _: len(answer.tokens) == 4), orders_of(answers[1:])
    assert one.keys.tolist() == alone.keys.tolist() and one.tokens.tolist() == alone.tokens.tolist()
    assert orders_of(answers, lambda *_: False) == orders_of([]) == []


def test_the_observed_text_changes_the_draft(folder: Path) -> None:
    drafter = PhraseDrafter(VOCABULARY, read_table(folder, VOCABULARY))

    def next_token(drafter: PhraseDrafter) -> int:
        return int(best_first(drafter.draft(2, 1), 2, 1).tokens[1])
    assert next_token(drafter) == 3
    drafter.observe(np.array([7, 2, 6, 7, 2, 6, 7], np.int32), None)
    assert next_token(drafter) == 6 and next_token(drafter.fork()) == 3, "a fork has not observed the text"
    drafter.release()
    assert next_token(drafter) == 3


def test_a_draft_follows_the_counts_of_the_text() -> None:
    drafter = PhraseDrafter(VOCABULARY)
    drafter.observe(np.array([1, 2, 1, 3, 1], np.int32), None)
    row = drafter.draft(1, 1)  # after 3 1 1: nothing followed "1 1" yet, and "1" was followed by 2, 3 and 1
    shares = dict(zip(row.tokens[0, 0].tolist(), np.exp(row.logprobs[0, 0]).tolist(), strict=True))
    assert shares[2] == pytest.approx(1 / (2 + 8)) and shares[3] == pytest.approx(1 / (2 + 8))


@given(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=40), st.integers(1, 30))
def test_its_tree_holds_the_best_of_all_paths(text: list[int], nodes: int) -> None:
    drafter = PhraseDrafter(VOCABULARY)
    drafter.observe(np.array(text, np.int32), None)
    lattice = drafter.draft(text[-1], nodes)
    assert (lattice.logprobs[..., 1:] <= lattice.logprobs[..., :-1]).all()
    logprobs = best_first(lattice, text[-1], nodes).logprobs[1:]
    from_larger = best_first(drafter.draft(text[-1], 4 * nodes), text[-1], nodes).logprobs[1:]
    np.testing.assert_allclose(logprobs, from_larger, atol=1e-5)
    assert len(logprobs) == nodes or np.isneginf(lattice.logprobs).any(axis=-1).all() or len(set(text)) < nodes


def test_a_row_is_a_truncated_distribution(folder: Path) -> None:
    drafter = PhraseDrafter(VOCABULARY, read_table(folder, VOCABULARY))
    drafter.observe(np.array([2, 3, 4, 2, 3, 5, 2], np.int32), None)
    shares = np.exp(drafter.draft(3, 16).logprobs)
    assert (shares.sum(-1) <= 1 + 1e-3).all() and shares[0, 0, 0] > MIN_PROBABILITY


def test_a_folder_is_recognised_and_its_vocabulary_checked(folder: Path) -> None:
    target, larger = (TargetFacts(folder, LlamaConfig(vocab_size=size)) for size in (VOCABULARY, VOCABULARY + 1))
    plan = plan_drafter(folder, target)
    assert plan.taps == () and plan.sees_path
    with pytest.raises(RigError, match="vocabulary of 9.* 10"):
        plan_drafter(folder, larger)
    (folder / "config.json").write_text('{"architectures": ["PhraseTable"]}')
    with pytest.raises(RigError, match="vocabulary of None"):
        plan_drafter(folder, target)


def changed(name: str, change: Callable[[np.ndarray], np.ndarray | None]) -> Callable[[Path], None]:
    """Return a function that changes or removes one array of a table's file."""
    def damage(file: Path) -> None:
        arrays = {key: value.copy() for key, value in load_file(file).items()}
        array = change(arrays.pop(name))
        if array is not None:
            arrays[name] = np.ascontiguousarray(array)
        save_file(arrays, file)
    return damage


@pytest.mark.parametrize(("damage", "named"), [
    (changed("keys1", lambda _: None), "keys1"), (changed("tokens1", lambda _: np.zeros(3, np.int64)), "tokens1"),
    (changed("codes2", lambda _: np.zeros(1, np.uint8)), "ends2"), (changed("ends2", lambda ends: ends[::-1]), "ends2"),
    (changed("ends1", lambda ends: ends[:-1]), "ends1"), (changed("keys1", lambda keys: keys[::-1]), "keys1"),
    (changed("tokens1", lambda tokens: tokens + np.uint16(60)), "tokens1"),
    (lambda file: save_file({
        "keys1": np.array([1], np.uint64), "ends1": np.array([300], np.uint32), "tokens1": np.zeros(300, np.uint16),
        "codes1": np.zeros(300, np.uint8)}, file), "ends1"),
    (lambda file: file.write_bytes(file.read_bytes()[:-9]), "model.safetensors"),
    *[(lambda file, dtype=dtype: save_tensors({"keys1": torch.zeros(3, dtype=dtype)}, file), "table of phrases")
      for dtype in (torch.bfloat16, torch.float8_e4m3fn)]])
def test_an_unreadable_table_is_refused_in_one_sentence(
        folder: Path, damage: Callable[[Path], object], named: str) -> None:
    damage(folder / "model.safetensors")
    with pytest.raises(RigError, match=named) as caught:
        read_table(folder, VOCABULARY)
    assert "\n" not in str(caught.value)


def test_without_a_table_and_a_text_the_root_stays_alone() -> None:
    drafter: Drafter = PhraseDrafter(VOCABULARY)
    drafter.begin(5)
    assert best_first(drafter.draft(3, 8), 3, 8).tokens.tolist() == [3], "only the root"


def test_half_of_each_count_goes_by_the_targets_probabilities() -> None:
    unsure = shard([1, 2, 3], 1)
    unsure = replace(unsure, likely=np.array([[2, 4]] * 3, np.int32), logprobs=np.log(
        np.array([[0.6, 0.4]] * 3, np.float32)).astype(np.float16))
    one = orders_of([replace(unsure, conversations=np.array([[0, 1, 2]], np.int64))])[0]
    cells = dict(one.row(1) or ())
    assert cells[2] == pytest.approx((0.5 + 0.3) / 17, rel=0.04) and cells[4] == pytest.approx(0.2 / 17, rel=0.04)
