"""The project's files and the syntax trees of the Python ones, each parsed once for all rules."""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

HOUSE = Path(__file__).parents[2]


def sources(*folders: str) -> list[Path]:
    """Return app.py and the Python files of these folders."""
    return [HOUSE / "app.py", *(path for folder in folders for path in sorted((HOUSE / folder).rglob("*.py")))]


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf8"))))


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the full names of all modules that a file imports, also inside functions."""
    def names() -> Iterator[str]:
        for node in nodes(path):
            if isinstance(node, ast.Import):
                yield from (name.name for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (node.module or "", *(f"{node.module}.{name.name}" for name in node.names))
    return frozenset(names())


def packages(path: Path) -> set[str]:
    """Return the packages that a file imports from."""
    return {name.split(".")[0] for name in imports(path)}


def offenders(paths: Iterable[Path], rule: Callable[[Path], Iterable[object]]) -> dict[str, list[object]]:
    """Return what breaks a rule, by file name; files that keep it are left out. Raises AssertionError if no file was
    given, so that a rule cannot pass vacuously."""
    against = {str(path.relative_to(HOUSE)): list(rule(path)) for path in paths}
    assert against
    return {name: wrong for name, wrong in against.items() if wrong}
