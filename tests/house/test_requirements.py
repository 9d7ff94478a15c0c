"""What the code imports by itself is asked for by name, and not only brought along by something else."""

import re
import sys
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement

from tests.house.reading import HOUSE
from tests.house.test_layers import imports, sources

OPTIONAL = {"ray": "requirements-ray.txt"}  # by package; imported where it is used alone


def asked_for(name: str) -> dict[str, Requirement]:
    """The packages of a requirements file by the name that they are imported by."""
    lines = [line for line in (HOUSE / name).read_text(encoding="utf8").splitlines() if line and line[0] not in "-#"]
    return {re.sub("[-.]", "_", made.name).lower(): made for made in map(Requirement, lines)}


def imported(path: Path) -> set[str]:
    """The top packages of a file that neither Python nor this house brings."""
    return {name.split(".")[0] for name in imports(path)} - set(sys.stdlib_module_names) - {
        "", "engine", "explorer", "app"}


def test_every_imported_package_is_asked_for() -> None:
    asked = asked_for("requirements.txt")
    found = {name: path.name for path in sources("engine", "explorer") for name in imported(path)}
    assert {"torch", "huggingface_hub", "jinja2"} <= found.keys()
    assert {name: path for name, path in found.items() if name not in asked and name not in OPTIONAL} == {}


def test_what_is_installed_is_what_is_asked_for() -> None:
    for name in ("requirements.txt", *OPTIONAL.values()):
        for made in asked_for(name).values():
            assert made.specifier.contains(version(made.name)), made
