"""Who may import whom, and what is written nowhere (contracts 1 and 5)."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.house.reading import HOUSE, nodes, offenders

TORCH_ROOMS = ("models", "checkpoints", "drafters", "serving", "measure", "recipes", "commands")  # all else: torch-free
PAGE_PACKAGES = {"gradio", "plotly", "pandas", "networkx", "matplotlib", "explorer"}
SWITCHES = {"trust_remote_code", "allow_pickle", "weights_only"}  # of what may run code that comes with weights
UNSAFE = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}


def sources(*folders: str) -> list[Path]:
    """The Python files of these folders and of app.py."""
    return [HOUSE / "app.py", *(path for folder in folders for path in sorted((HOUSE / folder).rglob("*.py")))]


def is_torch_free(path: Path) -> bool:
    """Does the design want this file of ``engine/`` to import without torch?"""
    return path.relative_to(HOUSE / "engine").parts[0] not in TORCH_ROOMS


def module_name(path: Path) -> str:
    """engine/decoding/tree.py is engine.decoding.tree."""
    return ".".join(path.relative_to(HOUSE).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports(path: Path) -> frozenset[str]:
    """The full names of all modules that a file imports, wherever in the file."""
    return frozenset(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{name.name}" for name in node.names)


BLOCKED = """
import importlib, sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers", "safetensors"}:
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Wall())
for name in sys.argv[1:]:
    importlib.import_module(name)
assert not {"torch", "transformers"} & set(sys.modules)
"""


def imported_without_torch(names: list[str]) -> subprocess.CompletedProcess[str]:
    """Import modules in a process of their own in which torch does not exist."""
    return subprocess.run([sys.executable, "-c", BLOCKED, *names], cwd=HOUSE, capture_output=True, text=True,
                          check=False, timeout=300)


def test_the_torch_free_half_of_the_engine_imports_without_torch() -> None:
    names = [module_name(path) for path in sorted((HOUSE / "engine").rglob("*.py")) if is_torch_free(path)]
    assert {"engine.decoding.loop", "engine.requests.limits", "engine.trace", "engine.__main__"} <= set(names)
    done = imported_without_torch(names)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_explorer_imports_without_torch() -> None:
    done = imported_without_torch([module_name(path) for path in sorted((HOUSE / "explorer").rglob("*.py"))])
    assert done.returncode == 0, done.stderr


def test_the_wall_holds() -> None:
    done = imported_without_torch(["engine.models.sampling"])
    assert done.returncode != 0
    assert "blocked: torch" in done.stderr


def packages(path: Path) -> set[str]:
    """The packages that a file imports from."""
    return {name.split(".")[0] for name in imports(path)}


def test_the_engine_knows_nothing_of_the_page() -> None:
    assert offenders(sources("engine")[1:], lambda path: packages(path) & PAGE_PACKAGES) == {}


def test_the_explorer_knows_nothing_of_the_torch_half() -> None:
    torch_half = ("torch", "transformers", *(f"engine.{room}" for room in TORCH_ROOMS))
    assert offenders(sources("explorer")[1:], lambda path: [
        name for name in imports(path) if name.startswith(torch_half)]) == {}


def test_nothing_needs_the_recipes_or_the_command_line() -> None:
    for room, itself in (("engine.recipes", "recipes"), ("engine.commands", "commands")):
        others = [path for path in sources("engine", "explorer", "adapters")
                  if path.relative_to(HOUSE).parts[:2] != ("engine", itself)
                  and (itself, path.name) != ("commands", "app.py")]
        assert offenders(others, lambda path, room=room: [  # type: ignore[misc]
            name for name in imports(path) if name == room or name.startswith(f"{room}.")]) == {}
    recipes = sorted((HOUSE / "engine" / "recipes").rglob("*.py"))
    assert offenders(recipes, lambda path: [name for name in imports(path) if name.startswith("engine.commands")]) == {}


def compared_with_a_name(node: ast.AST) -> bool:
    """``method == "ddtree"``, ``row.name in (…)`` and the like: a decision that belongs into the table of methods."""
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
        return False
    sides = [node.left, *node.comparators]
    asks = any((isinstance(side, ast.Attribute) and (
        side.attr == "method" or (side.attr == "name" and "method" in ast.unparse(side.value)))) or (
        isinstance(side, ast.Name) and side.id == "method") for side in sides)
    constants = [part for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant)]
    return asks and any(isinstance(constant.value, str) for constant in constants)


def asks_what_a_method_is(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    """``def is_merged(method)``: a decision by name in disguise."""
    return isinstance(node, ast.FunctionDef) and node.name.startswith("is_") and any(
        given.arg == "method" or (given.arg == "self" and "drafter_count" in ast.unparse(node))
        or (given.annotation is not None and "Method" in ast.unparse(given.annotation)) for given in node.args.args)


def test_no_decision_is_made_by_a_methods_name() -> None:
    assert offenders(sources("engine", "explorer"), lambda path: [
        ast.unparse(node).splitlines()[0] for node in nodes(path)
        if compared_with_a_name(node) or asks_what_a_method_is(node)]) == {}


def test_the_name_rule_sees_what_it_should() -> None:
    for text in ('method == "a"', 'request.method in ("a", "b")', '"a" != ask.method', 'method.name == "x"'):
        assert compared_with_a_name(ast.parse(text, mode="eval").body)
    for text in ("name == method", "row.drafter_count == 1", "method in METHODS", 'color == "a"'):
        assert not compared_with_a_name(ast.parse(text, mode="eval").body)
    assert asks_what_a_method_is(ast.parse("def is_merged(row: Method): return row.drafter_count > 1").body[0])
    assert not asks_what_a_method_is(ast.parse("def is_empty(text: str): return not text").body[0])


def executes(node: ast.AST) -> bool:
    """Is this a call that runs, or could run, code that comes with weights?"""
    if not isinstance(node, ast.Call):
        return False
    given = {word.arg: ast.unparse(word.value) for word in node.keywords if word.arg in SWITCHES}
    if {given.get("trust_remote_code", "False"), given.get("allow_pickle", "False")} != {"False"}:
        return True
    return isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "torch.load" and (
        given.get("weights_only") != "True")


def test_nothing_a_stranger_wrote_is_executed() -> None:
    words = [*UNSAFE, *SWITCHES, "torch.load"]  # without one of them a file need not be parsed
    read = [path for path in sources("engine", "explorer", "tests")
            if (text := path.read_text(encoding="utf8")) and any(word in text for word in words)]
    assert offenders(read, lambda path: packages(path) & UNSAFE) == {}
    assert offenders(read, lambda path: [ast.unparse(node) for node in nodes(path) if executes(node)]) == {}


def test_the_rule_on_strangers_code_sees_what_it_should() -> None:
    for text in ("torch.load(a)", "f(trust_remote_code=True)", "numpy.load(a, allow_pickle=yes)"):
        assert executes(ast.parse(text, mode="eval").body)
    for text in ("load", "torch.load(a, weights_only=True)", "f(trust_remote_code=False)", "json.load(a)"):
        assert not executes(ast.parse(text, mode="eval").body)
