"""Names to code: what is registered is there, and what is there is registered."""

from pathlib import Path
from typing import Any

import pytest

from engine.decoding.acceptance import ACCEPTANCE_RULES
from engine.decoding.builders import BUILDERS
from engine.decoding.combiners import COMBINERS
from engine.decoding.methods import METHODS, halves, method_named, split_rule_of, whole
from engine.errors import RequestError
from engine.registry import Table

TABLES: dict[str, Table[Any]] = {"builders": BUILDERS, "combiners": COMBINERS, "acceptance": ACCEPTANCE_RULES}
DECODING = Path(__file__).parents[2] / "engine" / "decoding"


@pytest.mark.parametrize("package", list(TABLES))
def test_a_file_a_function_and_a_registered_name_are_one_and_the_same(package: str) -> None:
    table = TABLES[package]
    files = {path.stem for path in (DECODING / package).glob("*.py")} - {"__init__"}
    assert set(table) == files
    assert len(table) == len(files)
    for name, function in table.items():
        assert (function.__name__, function.__module__) == (name, f"engine.decoding.{package}.{name}")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"builders has no 'chian'; it has chain, best_first, expand, full"):
        BUILDERS["chian"]
    assert BUILDERS.get("chian") is None
    assert "__init__" not in COMBINERS


def test_every_method_is_made_of_registered_parts() -> None:
    for row in METHODS.values():
        assert row.build in BUILDERS
        assert row.combine in COMBINERS
        assert row.accept in ACCEPTANCE_RULES
        assert row.lossless == (row.accept != "ratio")
        assert row.summary.endswith(".")


def test_methods_and_splits_are_looked_up_with_a_sentence() -> None:
    assert method_named("ddtree") is METHODS["ddtree"]
    with pytest.raises(RequestError, match=r"There is no method 'x'; choose one of autoregressive, .*nanogpt_ratio\.$"):
        method_named("x")
    with pytest.raises(RequestError, match=r"There is no split 'x'; choose one of total, each\.$"):
        split_rule_of(METHODS["merged"], "x")


def test_budgets_are_shared_to_the_last_node() -> None:
    for drafters in (1, 2, 3):
        for budget in (0, 1, 7, 64):
            shares = halves(budget, drafters)
            assert sum(shares) == budget
            assert max(shares) - min(shares) <= 1
            assert sorted(shares, reverse=True) == list(shares)
            assert whole(budget, drafters) == (budget,) * drafters
    assert split_rule_of(METHODS["joint"], "each") is whole
    assert split_rule_of(METHODS["merged"], "total") is halves
