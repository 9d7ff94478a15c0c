"""The project's Python files as syntax trees, each parsed once for all the rules that read it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


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
