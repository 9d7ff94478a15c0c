"""The flags that several verbs share, each declared once, and the parsers of their values. Torch-free.

A parser turns a word of the command line into a value, or raises ``ArgumentTypeError`` with a sentence that continues
the flag's name: "is 0; it has to be a whole number from 1 to 1000".
"""

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace, _ArgumentGroup
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.decoding.budget_policy import AUTO, FIXED, MAX_AUTO_NODES
from engine.decoding.methods import METHODS
from engine.decoding.options import CHOICES, DEFAULTS, OPTIONS, check_option
from engine.errors import RequestError
from engine.machine.files import kind_of
from engine.records import Sampling
from engine.requests.limits import MAX_CONCURRENCY, MAX_REPEATS, check_int, shown
from engine.requests.prompts import ROLES, Turn
from engine.requests.rig_names import AUTO_DTYPE, DEFAULT_RIG, DTYPE_NAMES

MAX_RIG_NAME_LENGTH = 1024  # characters of a rig, of two model ids or two folders
MAX_PROMPTS = 10**6


def parse_text(word: str) -> str:
    """Accept any text that is not empty. Python passes undecodable bytes as lone surrogates."""
    if not word.strip():
        raise ArgumentTypeError("is empty; write at least one character")
    try:
        return word.encode(errors="surrogateescape").decode()
    except UnicodeError as error:
        raise ArgumentTypeError(f"is {shown(word)}, which is not UTF-8; write it in UTF-8") from error


def parse_name(word: str) -> str:
    word = parse_text(word)
    if "\0" in word or len(word) > MAX_RIG_NAME_LENGTH:
        raise ArgumentTypeError(f"is {shown(word)}, {len(word)} characters; it has to be a name of at most "
                                f"{MAX_RIG_NAME_LENGTH}, without zero bytes")
    return word


def parse_turn(word: str) -> Turn:
    role, colon, words = parse_text(word).partition(":")
    if not colon or role not in ROLES:
        raise ArgumentTypeError(f"is {shown(word)}; it has to be ROLE:TEXT, the role one of {', '.join(ROLES)}")
    return role, words


def one_of(*words: str) -> Callable[[str], str]:
    def read(word: str) -> str:
        if word not in words:
            raise ArgumentTypeError(f"is {shown(word)}; choose one of {', '.join(words)}")
        return word
    return read


def number(name: str, check: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser of a number. ``name`` is the subject of the sentences that ``check`` raises."""
    def read(word: str) -> Any:
        try:
            return check(word)
        except RequestError as error:
            raise ArgumentTypeError(str(error).removeprefix(f"{name} ").rstrip(".")) from error
    return read


def int_between(low: int, high: int) -> Callable[[str], Any]:
    return number("it", partial(check_int, "it", minimum=low, maximum=high))


def option(name: str) -> Callable[[str], Any]:
    """Return the parser of a run's option: a number, a word, or tokens separated by commas."""
    return one_of(*CHOICES[name]) if name in CHOICES else number(OPTIONS[name].name, partial(check_option, name))


parse_budget = option("budget")


def budget_or_auto(word: str) -> int | str:
    return AUTO if word == AUTO else int(parse_budget(word))


def readable(word: str) -> Path:
    """Accept a readable ordinary file or folder. Reading from a pipe could block forever."""
    kind = _kind(word)
    if kind is None:
        raise ArgumentTypeError(f"is {shown(word)}, which does not exist")
    if kind not in ("", "a folder"):
        raise ArgumentTypeError(f"is {shown(word)}, which is {kind}; name an ordinary file")
    if not os.access(word, os.R_OK):
        raise ArgumentTypeError(f"is {shown(word)}, which is not readable")
    return Path(word)


def readable_file(word: str) -> Path:
    if readable(word).is_dir():
        raise ArgumentTypeError(f"is {shown(word)}, which is a folder; name a file")
    return Path(word)


def writable_file(word: str) -> Path:
    """Accept a writable ordinary file, or a new one in an existing folder."""
    path, kind = Path(word), _kind(word)
    if kind:
        raise ArgumentTypeError(f"is {shown(word)}, which is {kind}; name an ordinary file")
    if not path.parent.is_dir():
        raise ArgumentTypeError(f"is {shown(word)}, whose folder does not exist")
    if not os.access(path.parent if kind is None else path, os.W_OK):
        raise ArgumentTypeError(f"is {shown(word)}, which is not writable")
    return path


def parse_folder(word: str) -> Path:
    if _kind(word) != "a folder" or not os.access(word, os.W_OK):
        raise ArgumentTypeError(f"is {shown(word)}, which is not a writable folder")
    return Path(word)


def _kind(word: str) -> str | None:
    """Return the kind of the file of that name, see ``kind_of``; None if there is none."""
    if not word:
        raise ArgumentTypeError("is empty; it has to be the path of a file")
    try:
        return kind_of(Path(word).stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise ArgumentTypeError(f"is {shown(word)}, which cannot be accessed") from error


SAMPLING = tuple(f"--{field.name.replace('_', '-')}" for field in fields(Sampling))
FLAGS: Mapping[str, Mapping[str, Any]] = MappingProxyType({  # of argparse's ``add_argument``
    **{f"--{name.replace('_', '-')}": {
        "type": option(name), "default": DEFAULTS[name],
        "help": f"{OPTIONS[name].help}: {', '.join(CHOICES[name])}" if name in CHOICES else OPTIONS[name].help}
       for name in DEFAULTS if name not in ("drafters", "turns")},
    "--budget": {"type": budget_or_auto, "metavar": "NODES",
                 "help": f"{OPTIONS['budget'].help}, or {AUTO} (default: the rig's own)"},
    "--drafters": {"type": parse_name, "nargs": "*", "default": [], "metavar": "NAME",
                   "help": OPTIONS["drafters"].help},
    "--rig": {"type": parse_name, "default": DEFAULT_RIG, "metavar": "NAME", "help": "a rig's name, a folder with a "
              "rig.json, TARGET::DRAFTER, or random:SHAPE, weights made at random in a published size, such as "
              "random:qwen3-8b"},
    "--dtype": {"type": one_of(*DTYPE_NAMES), "default": AUTO_DTYPE, "metavar": "DTYPE",
                "help": f"{', '.join(DTYPE_NAMES)}; {AUTO_DTYPE} is what is fastest on this processor"},
    "--methods": {"type": one_of(*METHODS), "nargs": "+", "metavar": "METHOD", "help": f"of {', '.join(METHODS)}"},
    "--budgets": {"type": parse_budget, "nargs": "+", "metavar": "NODES", "help": OPTIONS["budget"].help},
    "--concurrency": {"type": int_between(1, MAX_CONCURRENCY), "nargs": "+", "metavar": "N",
                      "help": "requests at once, in shared passes; several numbers are measured one after another"},
    "--prompts": {"type": parse_name, "metavar": "SET", "help": "a shipped set by name, or a file of JSON lines"},
    "--limit": {"type": int_between(1, MAX_PROMPTS), "metavar": "N", "help": "use only the first N prompts"},
    "--repeats": {"type": int_between(1, MAX_REPEATS), "default": 3, "metavar": "N",
                  "help": "how often each is measured"},
})


def add_flags(parser: ArgumentParser | _ArgumentGroup, *names: str, **changes: Any) -> None:
    """Add flags of the table to a parser or a group; ``changes`` replace their options."""
    for flag in names:
        parser.add_argument(flag, **{**FLAGS[flag], **changes})


def sampling_of(args: Namespace) -> Sampling:
    return Sampling(**{field.name: getattr(args, field.name) for field in fields(Sampling)})


def nodes_and_pace(budget: int | str) -> tuple[int, str]:
    """Return the budget and the pace of a request, from the value of --budget."""
    return (MAX_AUTO_NODES, AUTO) if isinstance(budget, str) else (budget, FIXED)
