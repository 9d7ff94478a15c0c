"""Checks of flags' values: each turns a word of the command line into a value. Torch-free.

Each raises ``ArgumentTypeError`` whose sentence continues the flag's name: "is 0; it has to lie between 1 and 1000".
"""

from __future__ import annotations

import os
import socket
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.decoding.budget_policy import AUTO
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.machine.files import kind_of
from engine.requests import limits
from engine.requests.limits import MOST_NODES, shown
from engine.requests.prompts import ROLES, Turn

LONGEST_NAME = 1024  # characters of a rig, of two model ids or two folders
SPLITS = tuple(dict.fromkeys(split for row in METHODS.values() for split in row.shares))


def text(word: str) -> str:
    """Any text that is not empty; bytes that are not UTF-8 arrive as lone surrogates."""
    try:
        word.encode()
    except UnicodeEncodeError as error:
        raise ArgumentTypeError(f"is {shown(word)}, which is not UTF-8; it has to be text") from error
    if not word.strip():
        raise ArgumentTypeError("is empty; write at least one character")
    return word


def name(word: str) -> str:
    """A rig's, a drafter's or a prompt set's name."""
    if "\0" in text(word) or len(word) > LONGEST_NAME:
        raise ArgumentTypeError(f"is {shown(word)}, {len(word)} characters; it has to be a name of at most "
                                f"{LONGEST_NAME}, without zero bytes")
    return word


def _flag(check: Callable[..., Any], *bounds: Any) -> Callable[[str], Any]:
    """``check(a name, word, *bounds)`` as the type of a flag, whose name takes the place of the sentence's."""
    def read(word: str) -> Any:
        try:
            return check("it", word, *bounds)
        except RequestError as error:
            raise ArgumentTypeError(str(error).removeprefix("it ").rstrip(".")) from error
    read.__qualname__ = check.__name__  # the kind of the flag, by which the attack chooses its words
    return read


def whole(least: int, most: int) -> Callable[[str], int]:
    """A whole number from ``least`` to ``most``."""
    return _flag(limits.whole, least, most)


budget = whole(0, MOST_NODES)


def budget_or_auto(word: str) -> int | str:
    """A number of drafted nodes, or ``auto``."""
    return AUTO if word == AUTO else budget(word)


def budget_words(words: str) -> str:
    """One word of a list of budgets, commas allowed between them: ``16``, ``4,16``, ``auto``."""
    budgets = words.replace(",", " ").split()
    if not budgets:
        raise ArgumentTypeError(f"is {shown(words)}; write at least one, as in: 16, 32, {AUTO}")
    for word in budgets:
        budget_or_auto(word)
    return words


def number(least: float, most: float, zero: bool = False) -> Callable[[str], float]:
    """A number from ``least`` to ``most``; 0 too where ``zero``."""
    return _flag(limits.number, least, most, zero)


top_p = _flag(limits.top_p)


def method(word: str) -> str:
    """The name of a row of ``METHODS``."""
    return one_of(*METHODS)(word)


def one_of(*words: str) -> Callable[[str], str]:
    """One of these words."""
    def read(word: str) -> str:
        if word not in words:
            raise ArgumentTypeError(f"is {shown(word)}; choose one of {', '.join(words)}")
        return word
    return read


def turn(word: str) -> Turn:
    """ROLE:TEXT in its two parts."""
    role, colon, words = text(word).partition(":")
    if not colon or role not in ROLES:
        raise ArgumentTypeError(f"is {shown(word)}; it has to be ROLE:TEXT, the role one of {', '.join(ROLES)}")
    return role, words


def readable_file(word: str) -> Path:
    """An ordinary file that exists and may be read."""
    path = readable(word)
    if path.is_dir():
        raise ArgumentTypeError(f"is {shown(word)}, which is a folder; name a file")
    return path


def readable(word: str) -> Path:
    """An ordinary file, or a folder, that exists and may be read."""
    path = _path(word)
    if not path.exists():
        raise ArgumentTypeError(f"is {shown(word)}, which does not exist; name what does")
    _must_be_ordinary(word, path)
    if not os.access(path, os.R_OK):
        raise ArgumentTypeError(f"is {shown(word)}, which may not be read; name what may be")
    return path


def address(word: str) -> str:
    """A name or an address that can be listened on."""
    try:
        socket.getaddrinfo(word or "\0", None)
    except (OSError, ValueError) as error:
        raise ArgumentTypeError(f"is {shown(word)}, which is not an address; write one such as 127.0.0.1 or "
                                "0.0.0.0") from error
    return word


def writable_file(word: str) -> Path:
    """An ordinary file that may be written, or made in a folder that exists."""
    path = _path(word)
    if not path.parent.is_dir():
        raise ArgumentTypeError(f"is {shown(word)}, whose folder does not exist; name a file in one that does")
    if path.exists():
        _must_be_ordinary(word, path)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ArgumentTypeError(f"is {shown(word)}, which is a folder or may not be written; name a file that may be")
    return path


def folder(word: str) -> Path:
    """A folder that exists and may be written."""
    path = _path(word)
    if not path.is_dir() or not os.access(path, os.W_OK):
        raise ArgumentTypeError(f"is {shown(word)}, which is not a folder that may be written; name one that is")
    return path


def _must_be_ordinary(word: str, path: Path) -> None:
    """A pipe could be waited for without an end, and a device read."""
    kind = kind_of(path.stat().st_mode)
    if kind and not path.is_dir():
        raise ArgumentTypeError(f"is {shown(word)}, which is {kind}; name an ordinary file")


def _path(word: str) -> Path:
    """A path that the file system accepts, whether or not anything exists there."""
    if not word:
        raise ArgumentTypeError("is empty; it has to be the path of a file")
    try:
        Path(word).stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise ArgumentTypeError(f"is {shown(word)}, which no file that may be looked at is called; name "
                                "another") from error
    return Path(word)
