"""docs/targets.md says what is true: all types, and the ten most used in every run."""

import pytest
import transformers

from tests.engine.models.targets import KINDS, RUNS, TABLE, answer, rows, table

MOST_USED = ("llama", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "gemma3_text", "gemma4_text", "gpt_oss",
             "deepseek_v3", "lfm2")

pytestmark = pytest.mark.skipif(f"transformers {transformers.__version__} " not in TABLE.read_text(encoding="utf8"),
                                reason="the table is of another version of transformers")


@pytest.mark.parametrize("kind", MOST_USED)
def test_the_most_used_targets_verify_trees(kind: str) -> None:
    assert answer(kind) == rows()[kind] == RUNS


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(MOST_USED)))
def test_every_other_type_runs_or_is_refused_by_a_true_sentence(kind: str) -> None:
    assert answer(kind) == rows()[kind]


def test_no_type_is_missing_and_the_numbers_are_counted() -> None:
    assert set(rows()) == set(KINDS)
    assert table(rows()) == TABLE.read_text(encoding="utf8")
