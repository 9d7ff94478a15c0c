"""The project's files, and the Python ones as syntax trees, each parsed once for all the rules that read it."""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

HOUSE = Path(__file__).parents[2]


def sources(*folders: str) -> list[Path]:
    """app.py and the Python files of these folders."""
    return [HOUSE / "app.py", *(path for folder in folders for path in sorted((HOUSE / folder).rglob("*.py")))]


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf8"))))


@cache
def imports(path: Path) -> frozenset[str]:
    """The full names of all modules that a file imports, wherever in the file."""
    def names() -> Iterator[str]:
        for node in nodes(path):
            if isinstance(node, ast.Import):
                yield from (name.name for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (node.module or "", *(f"{node.module}.{name.name}" for name in node.names))
    return frozenset(names())


def packages(path: Path) -> set[str]:
    """The packages that a file imports from."""
    return {name.split(".")[0] for name in imports(path)}


def offenders(paths: Iterable[Path], rule: Callable[[Path], Iterable[object]]) -> dict[str, list[object]]:
    """Return what breaks a rule, by file name; files that keep it are left out. Raises AssertionError if no file was
    given, so that a rule cannot pass vacuously."""
    against = {str(path.relative_to(HOUSE)): list(rule(path)) for path in paths}
    assert against
    return {name: wrong for name, wrong in against.items() if wrong}
