"""The project's Python files as syntax trees, each parsed once for all the rules that read it."""

import ast
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

HOUSE = Path(__file__).parents[2]


@cache
def module(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax tree."""
    return tuple(ast.walk(module(path)))


@cache
def functions(path: Path) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    """Every function and method of a file, inner ones too."""
    return tuple(node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def offenders(paths: Iterable[Path], rule: Callable[[Path], Iterable[object]]) -> dict[str, list[object]]:
    """What a rule has against each file, by its name; a file that keeps the rule is not in it.

    Raises:
        ValueError: there are no files, and a rule about nothing holds nothing up.
    """
    found = {str(path.relative_to(HOUSE)): list(rule(path)) for path in paths}
    if not found:
        raise ValueError("A rule was asked about no files.")
    return {name: wrong for name, wrong in found.items() if wrong}
