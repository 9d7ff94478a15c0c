"""The house rules that can be counted: lengths, what a function returns; and what is written once. Ruff counts
parameters, and of the browser's half ESLint, which can tell where a function ends, functions and parameters, by the
numbers that are compared here."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

from engine.records import PromptRequest, Sampling
from engine.requests.limits import TRIED_BUDGETS
from explorer.run_form import RunForm
from tests.house.reading import HOUSE, SCRIPTS, module, nodes, offenders, sources

FILES = sources("engine", "explorer")
LONGEST_FILE, LONGEST_FUNCTION, MOST_RETURNED, MOST_BRANCHES = 400, 60, 3, 12
NINE_IN_TEN = 25
LINT = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf8"))["tool"]["ruff"]["lint"]
MOST_AT_THE_ROOT = 12  # of the files of a package that lie in no room
ALONE = {"engine/recorder.py": 715}  # copied alone into other projects, so that it cannot be several files
NAMES_THAT_SAY_NOTHING = {"utils", "util", "common", "helpers", "helper", "misc"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> list[Function]:
    """Every function and method of a file, inner ones too."""
    return [node for node in nodes(path) if isinstance(node, Function)]


def lines(function: Function) -> int:
    """Lines from ``def`` to the end, docstring included."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def returned(function: Function) -> int:
    """The most values that a function returns side by side."""
    counts = [len(node.value.elts) for node in ast.walk(function)
              if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)]
    promised = function.returns
    if isinstance(promised, ast.Subscript) and ast.unparse(promised.value) == "tuple" and (
            isinstance(promised.slice, ast.Tuple)):
        counts.append(len(promised.slice.elts))
    return max(counts, default=1)


def beyond(measure: Callable[[Function], int], most: int) -> Callable[[Path], list[tuple[str, int]]]:
    """The functions of a file of which something is more than it may be, with how much it is."""
    return lambda path: [(one.name, measure(one)) for one in functions(path) if measure(one) > most]


def too_long(path: Path) -> list[int]:
    """The lines of a file that has too many."""
    length = len(path.read_text(encoding="utf8").splitlines())
    return [length] if length > ALONE.get(str(path.relative_to(HOUSE)), LONGEST_FILE) else []


def test_files_and_functions_stay_small() -> None:
    assert offenders([*FILES, *SCRIPTS], too_long) == {}
    assert offenders(FILES, beyond(lines, LONGEST_FUNCTION)) == {}
    assert offenders(FILES, beyond(returned, MOST_RETURNED)) == {}
    lengths = sorted(lines(one) for path in FILES for one in functions(path))
    assert len(lengths) > 100 and lengths[int(0.9 * len(lengths))] <= NINE_IN_TEN
    assert 0 < len(list((HOUSE / "engine").glob("*.py"))) <= MOST_AT_THE_ROOT


def test_eslint_counts_by_the_same_numbers() -> None:
    rules = dict(re.findall(r'"([\w-]+)": \["error", (\d+)\]', (HOUSE / "eslint.config.js").read_text(encoding="utf8")))
    assert int(rules["complexity"]) <= MOST_BRANCHES
    assert [int(rules[name]) for name in ("max-lines", "max-lines-per-function", "max-params")] == [
        LONGEST_FILE, LONGEST_FUNCTION, LINT["pylint"]["max-args"]]


def test_names_say_something_and_a_class_has_its_name_for_itself() -> None:
    assert offenders([*FILES, *SCRIPTS], lambda path: NAMES_THAT_SAY_NOTHING & {
        part.partition(".")[0] for part in path.relative_to(HOUSE).parts}) == {}
    names = Counter(node.name for path in FILES for node in module(path).body
                    if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))
    assert len(names) > 100 and [name for name, count in names.items() if count > 1] == []


def test_the_counting_counts() -> None:
    function = ast.parse("def f(self, a, b, *, c):\n    '''Doc.'''\n    return 1, 2, 3, 4\n").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert (lines(function), returned(function)) == (3, 4)
    assert offenders(FILES, beyond(lines, 3)) and not offenders(FILES, beyond(lines, 1000))


def test_the_form_has_the_fields_and_defaults_of_what_it_becomes() -> None:
    usual = {one.name: one.default for kind in (PromptRequest, Sampling) for one in fields(kind)
             if one.name != "sampling"}
    assert set(RunForm.model_fields) == set(usual)
    defaults = {name: field.default for name, field in RunForm.model_fields.items() if field.default is not None
                and not field.is_required()}
    assert defaults == {name: usual[name] for name in defaults}


def tried_again(text: str) -> Iterator[str]:
    """Lists of four budgets or more, ascending, that are all among those that are tried, in Python or JavaScript."""
    for numbers in re.findall(r"[\[(]\s*(\d+(?:\s*,\s*\d+){3,})\s*,?\s*[\])]", text):
        values = [int(word) for word in numbers.split(",")]
        if set(values) <= set(TRIED_BUDGETS) and values == sorted(set(values)):
            yield numbers


def test_the_tried_budgets_and_the_mean_acceptance_length_are_defined_once() -> None:
    texts = {str(path.relative_to(HOUSE)): path.read_text(encoding="utf8") for path in [*FILES, *SCRIPTS]}
    assert [name for name, text in texts.items() if list(tried_again(text))] == ["engine/requests/limits.py"]
    assert list(tried_again("x = (16, 32,\n 64, 128)")) and list(tried_again("const x = [0, 4, 8, 16];"))
    assert not list(tried_again("x = (1, 2, 3, 4)")) and not list(tried_again("[3, 3, 3, 3]"))
    mean = re.compile(r"^def mean_length|sum\(len\([^)]*keep\)[^)]*\)[^\n]*\) / len", re.MULTILINE)
    assert [name for name, text in texts.items() if mean.search(text)] == ["engine/trace/lines.py"]
