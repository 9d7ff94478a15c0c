"""The house rules that can be counted: lengths, parameters, what a function returns."""

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.house.reading import HOUSE, functions, module, offenders

FILES = [HOUSE / "app.py", *sorted((HOUSE / "engine").rglob("*.py")), *sorted((HOUSE / "explorer").rglob("*.py"))]
Function = ast.FunctionDef | ast.AsyncFunctionDef

LONGEST_FILE, LONGEST_FUNCTION, MOST_PARAMETERS, MOST_RETURNED = 400, 60, 7, 3
NINE_IN_TEN = 25
MOST_AT_THE_ROOT = 12  # of the files of a package that lie in no room
ALONE = {"engine/recorder.py": 750}  # copied alone into other projects, so that it cannot be several files
NAMES_THAT_SAY_NOTHING = {"utils", "util", "common", "helpers", "helper", "misc"}


def lines(function: Function) -> int:
    """Lines from ``def`` to the end, docstring included."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: Function) -> int:
    """How many parameters a caller can give."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in {"self", "cls"}])


def returned(function: Function) -> int:
    """The most values that a function returns side by side."""
    counts = [len(node.value.elts) for node in ast.walk(function)
              if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)]
    promised = function.returns
    if isinstance(promised, ast.Subscript) and ast.unparse(promised.value) == "tuple" and (
            isinstance(promised.slice, ast.Tuple)):
        counts.append(len(promised.slice.elts))
    return max(counts, default=1)


def too_long(path: Path) -> list[int]:
    """The lines of a file that has too many."""
    length = len(path.read_text(encoding="utf8").splitlines())
    return [length] if length > ALONE.get(str(path.relative_to(HOUSE)), LONGEST_FILE) else []


def beyond(measure: Callable[[Function], int], most: int) -> Callable[[Path], list[tuple[str, int]]]:
    """The functions of a file of which something is more than it may be, with how much it is."""
    return lambda path: [(each.name, measure(each)) for each in functions(path) if measure(each) > most]


def test_files_and_functions_stay_small() -> None:
    assert offenders(FILES, too_long) == {}
    assert offenders(FILES, beyond(lines, LONGEST_FUNCTION)) == {}
    assert offenders(FILES, beyond(parameters, MOST_PARAMETERS)) == {}
    assert offenders(FILES, beyond(returned, MOST_RETURNED)) == {}


def test_names_say_something() -> None:
    assert offenders(FILES, lambda path: NAMES_THAT_SAY_NOTHING & {
        part.removesuffix(".py") for part in path.relative_to(HOUSE).parts}) == {}


def test_what_lies_in_no_room_can_be_taken_in_at_a_glance() -> None:
    assert 0 < len(list((HOUSE / "engine").glob("*.py"))) <= MOST_AT_THE_ROOT


def test_a_class_has_its_name_for_itself() -> None:
    names = Counter(node.name for path in FILES for node in module(path).body
                    if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


def test_nine_functions_in_ten_fit_in_twenty_five_lines() -> None:
    lengths = sorted(lines(each) for path in FILES for each in functions(path))
    assert len(lengths) > 100
    assert lengths[int(0.9 * len(lengths))] <= NINE_IN_TEN


def test_the_counting_counts() -> None:
    text = "def f(self, a, b, *, c):\n    '''Doc.'''\n    return 1, 2, 3, 4\n"
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert (lines(function), parameters(function), returned(function)) == (3, 3, 4)
    assert offenders(FILES, beyond(lines, 3)) and not offenders(FILES, beyond(lines, 1000))
