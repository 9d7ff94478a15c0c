"""Reads and writes ordinary files only, replaces them atomically, and names the folder of caches."""

import errno
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from types import MappingProxyType
from typing import BinaryIO

from engine.errors import FileError

CACHE_VARIABLE = "CANOPY_CACHE"
KINDS: Mapping[str, Callable[[int], bool]] = MappingProxyType({
    "a folder": stat.S_ISDIR, "a device": stat.S_ISCHR, "a disk": stat.S_ISBLK, "a pipe": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK})


def kind_of(mode: int) -> str:
    """Return the kind of a file in words, by its mode; "" for an ordinary file."""
    return next((kind for kind, is_kind in KINDS.items() if is_kind(mode)), "")


def name_in_utf8(path: Path) -> str:
    r"""Return the file's name without its folder; bytes that are no UTF-8, which no answer could carry, as ``\xff``."""
    return os.fsencode(path.name).decode("utf8", "backslashreplace")


def cause_of(error: Exception) -> str:
    """Say why a file could not be opened, read or written, without its name; a missing folder is named."""
    if isinstance(error, FileNotFoundError | NotADirectoryError) and error.filename:
        folder = Path(os.fsdecode(error.filename)).parent
        if not folder.is_dir():
            return f"there is no folder {ascii(str(folder))}"
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def open_file(path: Path) -> BinaryIO:
    """Open an ordinary file for reading, without waiting for a pipe. OSError if it cannot be opened, or is of another
    kind, which its ``strerror`` says."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if kind := kind_of(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def replace_file(path: Path, data: bytes) -> None:
    """Replace or create a file: it appears complete or not at all. A link's target is replaced. FileError, whose
    message begins with the file's name, if that is not an ordinary file."""
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and (kind := kind_of(target.stat().st_mode)):
            raise FileError(f"{path.name or path}: it is {kind}, and only an ordinary file is replaced.")
        _write_beside(target, data)
    except (OSError, ValueError) as error:
        raise FileError(f"{path.name or path}: {cause_of(error)}.") from error


def _write_beside(target: Path, data: bytes) -> None:
    partial = target.with_name(f"{target.name}.{token_hex(4)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(partial, flags, 0o666), "wb") as file:
            if target.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def kept_files() -> Path:
    """Return the folder for converted checkpoints and unfinished training: $CANOPY_CACHE, else ``canopy`` in the user's
    cache folder. It may not exist yet."""
    if folder := os.environ.get(CACHE_VARIABLE):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "canopy"
