"""Rules about which module may import which, and about code that must not occur."""

import ast
import re
import subprocess
import sys
from functools import cache, partial
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.house.reading import HOUSE, imports, nodes, offenders, packages, sources

TORCH_ROOMS = ("models", "checkpoints", "texts", "drafters", "serving", "measure", "commands")  # others import no torch
PAGE_PACKAGES = {"gradio", "plotly", "pandas", "networkx", "matplotlib", "explorer"}
EXECUTING_ARGUMENTS = {"trust_remote_code", "allow_pickle", "weights_only"}
UNSAFE = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}
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


def error_without_torch(paths: list[Path]) -> str:
    """Import the files in a process without torch; return the error, or ""."""
    names = [".".join(path.relative_to(HOUSE).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    done = subprocess.run([sys.executable, "-c", BLOCKED, *names], cwd=HOUSE, capture_output=True, text=True,
                          check=False, timeout=300)
    assert done.returncode == 0 or done.stderr
    return done.stderr if done.returncode else ""


def test_the_torch_free_half_of_the_engine_imports_without_torch() -> None:
    paths = [path for path in sources("engine")[1:]
             if path.relative_to(HOUSE / "engine").parts[0] not in TORCH_ROOMS]
    assert {HOUSE / "engine" / name for name in ("decoding/loop.py", "requests/limits.py", "__main__.py")} <= set(paths)
    assert error_without_torch(paths) == ""
    assert "blocked: torch" in error_without_torch([HOUSE / "engine/models/sampling.py"]), "importing torch is blocked"


@pytest.mark.slow
def test_the_explorer_imports_without_torch() -> None:
    assert error_without_torch(sources("explorer")[1:]) == ""


def imports_of(names: tuple[str, ...], path: Path) -> list[str]:
    """Return the imports of a file that belong to these packages and modules."""
    return [name for name in imports(path) if name.startswith(tuple(f"{prefix}." for prefix in names)) or name in names]


def test_no_package_imports_a_higher_layer() -> None:
    assert offenders(sources("engine")[1:], lambda path: packages(path) & PAGE_PACKAGES) == {}
    torch_half = ("torch", "transformers", *(f"engine.{room}" for room in TORCH_ROOMS))
    assert offenders(sources("explorer")[1:], partial(imports_of, torch_half)) == {}
    everybody = sources("engine", "explorer", "adapters")
    assert offenders(everybody, partial(imports_of, ("recipes",))) == {}
    others = [path for path in [*everybody, *sources("recipes")] if "commands" not in path.parts]
    assert offenders(others, partial(imports_of, ("engine.commands",))).keys() <= {"app.py", "engine/__main__.py"}


# A room is a folder directly below engine/ or explorer/ with everything in it. Every room may import a file that lies
# directly in engine/ or explorer/; such a file is a node of its own in the graph.


def room(path: Path) -> str:
    """Return the file's room, or the file itself if it is in no room."""
    parts = path.relative_to(HOUSE).with_suffix("").parts
    return "/".join(parts[:2] if parts[0] in ("engine", "explorer") else parts[:1])


@cache
def module_file(module: str) -> Path | None:
    """Return the project's file for a module, or None for names within modules and for other packages."""
    base = HOUSE.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


def test_rooms_do_not_import_each_other_in_a_cycle() -> None:
    """Empty ``__init__`` files are exempt, and so is the engine's own, which is its interface for other programs."""
    rooms: dict[str, set[str]] = {}
    for path in sources("engine", "explorer"):
        if path != HOUSE / "engine" / "__init__.py":
            files = [other for name in imports(path) if (other := module_file(name)) and other.stat().st_size]
            rooms.setdefault(room(path), set()).update({room(other) for other in files} - {room(path)})
    assert {"app", "engine/decoding", "engine/models", "explorer/lab"} <= rooms.keys()
    TopologicalSorter(rooms).prepare()  # raises CycleError


# ``method == "ddtree"``, ``row.method.name in (…)``, ``def is_merged(method)``: the table of methods decides these.
METHOD = r"(?<!for )\b(?:\w+\.)*method(?:\.name)?"  # except ``for method in (…)``
BY_NAME = re.compile(rf"""{METHOD} (?:==|!=|in|not in) [(\[{{]?['"]|['"] (?:==|!=) {METHOD}\b|"""
                     r"def is_\w+\([^)]*(?:\bmethod\b|: Method\b)")


def test_no_decision_is_made_by_a_methods_name() -> None:
    files = sources("engine", "explorer", "recipes")
    assert offenders(files, lambda path: BY_NAME.findall(path.read_text(encoding="utf8"))) == {}
    assert all(map(BY_NAME.search, ('request.method in ("a", "b")', '"a" != ask.method', 'method.name == "x"')))


def may_execute(node: ast.AST) -> bool:
    """Return whether this call runs, or could run, code that comes with weights."""
    if not isinstance(node, ast.Call):
        return False
    given = {word.arg: ast.unparse(word.value) for word in node.keywords if word.arg in EXECUTING_ARGUMENTS}
    if {given.get("trust_remote_code", "False"), given.get("allow_pickle", "False")} != {"False"}:
        return True
    return isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "torch.load" and (
        given.get("weights_only") != "True")


def test_code_that_comes_with_weights_is_never_executed() -> None:
    words = [*UNSAFE, *EXECUTING_ARGUMENTS, "torch.load"]  # without one of them a file need not be parsed
    read = [path for path in sources("engine", "explorer", "recipes", "tests")
            if (text := path.read_text(encoding="utf8")) and any(word in text for word in words)]
    assert offenders(read, lambda path: packages(path) & UNSAFE) == {}
    assert offenders(read, lambda path: [ast.unparse(node) for node in nodes(path) if may_execute(node)]) == {}
    for text in ("torch.load(a)", "f(trust_remote_code=True)", "numpy.load(a, allow_pickle=yes)"):
        assert may_execute(ast.parse(text, mode="eval").body), text
