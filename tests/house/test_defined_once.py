"""What is a fact of the whole program stands in one place: a request's fields, the budgets that are tried, τ."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from engine.records import PromptRequest, Sampling
from engine.requests.limits import TRIED_BUDGETS
from explorer.run_form import RunForm
from tests.house.reading import HOUSE, nodes, offenders
from tests.house.test_layers import sources

SCRIPTS = sorted((HOUSE / "assets").rglob("*.js"))
DEFINED_IN = {"TRIED_BUDGETS": "engine/requests/limits.py", "mean_length": "engine/trace/lines.py"}


def test_the_form_has_the_fields_and_defaults_of_what_it_becomes() -> None:
    usual = {each.name: each.default for kind in (PromptRequest, Sampling) for each in fields(kind)
             if each.name != "sampling"}
    assert set(RunForm.model_fields) == set(usual)
    said = {name: field.default for name, field in RunForm.model_fields.items() if not field.is_required()}
    assert {name: default for name, default in said.items() if default is not None} == {
        name: usual[name] for name, default in said.items() if default is not None}


def tried_again(read: Iterable[ast.AST]) -> Iterator[str]:
    """Lists of four budgets or more that are all among those that are tried, in Python."""
    for node in read:
        if isinstance(node, ast.Tuple | ast.List) and len(node.elts) > 3:
            values = [each.value for each in node.elts
                      if isinstance(each, ast.Constant) and isinstance(each.value, int)]
            if len(values) == len(node.elts) and set(values) <= set(TRIED_BUDGETS) and values == sorted(set(values)):
                yield ast.unparse(node)


def tried_again_in_script(text: str) -> Iterator[str]:
    """The same in JavaScript."""
    for found in re.findall(r"\[\s*(\d+(?:\s*,\s*\d+){3,})\s*\]", text):
        values = [int(word) for word in found.split(",")]
        if set(values) <= set(TRIED_BUDGETS) and values == sorted(set(values)):
            yield found


def test_the_budgets_that_are_tried_are_listed_once() -> None:
    def lists(path: Path) -> Iterator[str]:
        return (tried_again(nodes(path)) if path.suffix == ".py"
                else tried_again_in_script(path.read_text(encoding="utf8")))
    assert [*offenders([*sources("engine", "explorer"), *SCRIPTS], lists)] == [DEFINED_IN["TRIED_BUDGETS"]]


def test_the_rule_sees_what_it_should() -> None:
    first, second = (ast.walk(ast.parse(text)) for text in ("x = (16, 32, 64, 128)", "x = (1, 2, 3, 4)"))
    assert list(tried_again(first)) and not list(tried_again(second))
    assert list(tried_again_in_script("const x = [0, 4, 8, 16];")) and not list(tried_again_in_script("[3, 3, 3, 3]"))


def test_the_mean_acceptance_length_is_defined_once() -> None:
    defined = [path for path in sources("engine", "explorer") if re.search(
        r"^def mean_length|sum\(len\([^)]*keep\)[^)]*\)[^\n]*\) / len", path.read_text(encoding="utf8"), re.MULTILINE)]
    assert [str(path.relative_to(HOUSE)) for path in defined] == [DEFINED_IN["mean_length"]]
