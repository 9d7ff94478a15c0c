"""Every imported package is required; the lock holds every runtime package in the tested version with its hashes; the
tools for the browser code are pinned."""

import json
import re
import sys
from importlib.metadata import version

from packaging.requirements import Requirement

from tests.house.reading import HOUSE, packages, sources

OPTIONAL = {"ray": "requirements-ray.txt"}  # packages that only the module using them imports
LOCK = (HOUSE / "requirements.lock").read_text(encoding="utf8")
LOCKED = {package[1]: (package[2], package[3]) for package in re.finditer(
    r"^([a-z0-9.-]+)==([^\s\\]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", LOCK, re.MULTILINE)}


def requirements_in(name: str) -> dict[str, Requirement]:
    """Return the packages of a requirements file by the name that they are imported by."""
    lines = [line for line in (HOUSE / name).read_text(encoding="utf8").splitlines() if line and line[0] not in "-#"]
    return {re.sub("[-.]", "_", package.name).lower(): package for package in map(Requirement, lines)}


REQUIRED = requirements_in("requirements.txt")


def test_every_imported_package_is_required() -> None:
    ours = {"", "engine", "explorer", "recipes", "app", *sys.stdlib_module_names}
    used = {name: path.name for path in sources("engine", "explorer", "recipes") for name in packages(path) - ours}
    assert {"torch", "huggingface_hub", "jinja2"} <= used.keys()
    assert {name: path for name, path in used.items() if name not in REQUIRED and name not in OPTIONAL} == {}


def test_installed_packages_are_the_required_and_locked_ones() -> None:
    for name in ("requirements.txt", *OPTIONAL.values()):
        for package in requirements_in(name).values():
            assert package.specifier.contains(version(package.name)), package
    assert {name: version(name) for name in LOCKED} == {name: locked for name, (locked, _) in LOCKED.items()}


def test_every_package_is_locked_with_hashes_and_without_an_index_address() -> None:
    names = {package.name.lower().replace("_", "-"): package for package in REQUIRED.values()}
    assert names.keys() - LOCKED.keys() == {"torch"}, "renew it with `make lock`"
    assert all(package.specifier.contains(LOCKED[name][0]) for name, package in names.items() if name in LOCKED)
    assert len(LOCKED) > 50 and LOCK.count("--hash") == sum(hashes.count("--hash") for _, hashes in LOCKED.values())
    assert "://" not in LOCK and "index-url" not in LOCK and "@" not in LOCK


def test_tools_for_browser_code_are_pinned_and_name_no_registry() -> None:
    asked = json.loads((HOUSE / "package.json").read_text(encoding="utf8"))["devDependencies"]
    assert {"eslint", "typescript"} <= asked.keys()
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", number) for number in asked.values())
    locked = json.loads((HOUSE / "package-lock.json").read_text(encoding="utf8"))["packages"]
    assert [name for name, package in locked.items() if "resolved" in package] == []
