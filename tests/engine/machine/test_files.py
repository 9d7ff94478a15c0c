"""``replace_file`` replaces ordinary files only."""

import os
import stat
from pathlib import Path

import pytest

from engine.errors import FileError, ResultsError, TraceError
from engine.lab.store import Store
from engine.machine.files import replace_file
from engine.trace import dump
from tests.engine.test_trace import toy_trace


def test_a_file_is_created_and_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    replace_file(path, b"one")
    path.chmod(0o640)
    replace_file(path, b"two")
    assert path.read_bytes() == b"two" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    for name, target in (("link", "real"), ("dangling", "nowhere")):
        (tmp_path / name).symlink_to(target)
        replace_file(tmp_path / name, b"new")
        assert (tmp_path / name).is_symlink() and (tmp_path / target).read_bytes() == b"new"


@pytest.mark.parametrize(("name", "kind"), [
    ("folder", "a folder"), ("pipe", "a pipe"), ("device", "a device"), ("link to a device", "a device")])
def test_anything_but_an_ordinary_file_is_left_unchanged(name: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link to a device").symlink_to("/dev/null")
    path = Path("/dev/null") if name == "device" else tmp_path / name
    before = path.lstat()
    with pytest.raises(FileError, match=kind):
        replace_file(path, b"x")
    with pytest.raises(TraceError, match=kind):
        dump(toy_trace("dflash"), path)
    with pytest.raises(ResultsError):
        Store(path)
    after = path.lstat()
    assert (after.st_mode, after.st_rdev, after.st_ino) == (before.st_mode, before.st_rdev, before.st_ino)


@pytest.mark.parametrize("name", ["", ".", "..", "a\0b", "x" * 300, "none/there", "\ud800"])
def test_an_invalid_name_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (Path(name), tmp_path / name):
        try:
            replace_file(path, b"x")
        except FileError as error:
            assert str(error).endswith(".")
        else:
            assert name == "\ud800"  # a valid name on this system
    assert not list(tmp_path.glob("*.part"))


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1
