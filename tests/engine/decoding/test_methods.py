"""Names to code: methods and their splits."""

import pytest

from engine.decoding.acceptance import ratio
from engine.decoding.methods import METHODS, even_split, full_budget, method_named, split_rule_of
from engine.errors import RequestError


def test_methods_and_splits_are_looked_up_with_a_sentence() -> None:
    assert method_named("ddtree") is METHODS["ddtree"]
    with pytest.raises(RequestError, match=r"There is no method 'x'; choose one of autoregressive, .*nanogpt_ratio\.$"):
        method_named("x")
    with pytest.raises(RequestError, match=r"There is no split 'x'; choose one of total, each\.$"):
        split_rule_of(METHODS["merged"], "x")
    assert split_rule_of(METHODS["joint"], "each") is full_budget
    assert split_rule_of(METHODS["merged"], "total") is even_split
    for row in METHODS.values():
        assert row.lossless == (row.accept is not ratio) and row.summary.endswith(".")


@pytest.mark.parametrize("budget", [0, 1, 7, 64])
@pytest.mark.parametrize("drafter_count", [1, 2, 3])
def test_budgets_are_split_to_the_last_node(drafter_count: int, budget: int) -> None:
    parts = even_split(budget, drafter_count)
    assert sum(parts) == budget and max(parts) - min(parts) <= 1 and sorted(parts, reverse=True) == list(parts)
    assert full_budget(budget, drafter_count) == (budget,) * drafter_count
