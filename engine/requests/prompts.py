"""Prompts: files of them, the conversation before one, and whether one is of a kind that a rig was trained for.

A prompt file holds JSON lines with a ``prompt`` (or ``turns``, whose first is used) and an optional ``category``
(``domain`` in older files).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from engine.errors import RequestError
from engine.machine.files import cause_of, open_file
from engine.requests.limits import shown

MAX_FILE_BYTES = 32 * 2**20  # far more prompts than a sweep can measure

Turn = tuple[str, str]  # role and text
ROLES = ("system", "user", "assistant")
THINKING = ("auto", "on", "off")  # of a chat template

MAX_MATCHED_LENGTH = 1500  # characters: matching an expression may take time quadratic in them


@dataclass(frozen=True)
class Prompt:
    """One line of a prompt file; ``turns`` are the conversation before the prompt, which prompt files do not have."""

    text: str
    category: str = ""
    turns: tuple[Turn, ...] = ()


def read_prompts(path: Path) -> list[Prompt]:
    """Return the prompts of a file; RequestError names the first line that is not a prompt."""
    try:
        with open_file(path) as file:
            return prompts_from(file.read(MAX_FILE_BYTES + 1), path.name)
    except (OSError, ValueError) as error:
        raise RequestError(f"The prompt file {path.name} cannot be read: {cause_of(error)}.") from error


def prompts_from(data: bytes, name: str) -> list[Prompt]:
    """Return the prompts in a file's bytes, see ``read_prompts``."""
    if len(data) > MAX_FILE_BYTES:
        raise RequestError(f"The prompt file {name} is larger than {MAX_FILE_BYTES >> 20} MB, which is the most "
                           "that is read; split it.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise RequestError(f"The prompt file {name} is not UTF-8 (line {line}, byte {error.start}); save it as "
                           "UTF-8.") from error
    rows = text.split("\n")  # not splitlines: JSON text may hold other line separators
    prompts = [_prompt(row, f"{name}, line {number}") for number, row in enumerate(rows, 1) if row.strip()]
    if not prompts:
        raise RequestError(f"The prompt file {name} holds no prompt; write one JSON object a line.")
    return prompts


def _prompt(row: str, where: str) -> Prompt:
    try:
        value = json.loads(row)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{where} is not JSON ({error}); write one object a line.") from error
    text: Any = None
    category: Any = ""
    if isinstance(value, dict):
        turns, category = value.get("turns"), value.get("category", value.get("domain", ""))
        text = value.get("prompt", turns[0] if isinstance(turns, list) and turns else None)
    if not isinstance(text, str) or not text.strip():
        raise RequestError(f'{where} has no text under "prompt" or "turns".')
    if not isinstance(category, str):
        raise RequestError(f'{where} has a "category" that is not a text: {shown(category)}.')
    check_text(where, text + category)
    return Prompt(text, category)


def check_text(name: str, text: Any) -> str:
    """Return the text; RequestError if it is something else, or holds a lone surrogate, which cannot be encoded."""
    if not isinstance(text, str):
        raise RequestError(f"{name} is {shown(text)}; it has to be a text.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{name} holds half of a character (a lone surrogate, at {error.start}); write whole "
                           "characters.") from error
    return text


def turns_from(value: Any) -> tuple[Turn, ...]:
    """Return the turns in a list of [role, text] or {"role", "content"}; RequestError names the first invalid one."""
    if not isinstance(value, list | tuple | NoneType):
        raise RequestError(f"The turns are {shown(value)}; they have to be a list of turns.")
    turns = []
    for number, turn in enumerate(value or (), start=1):
        pair = [turn.get("role"), turn.get("content")] if isinstance(turn, Mapping) else turn
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise RequestError(f'Turn {number} is {shown(turn)}; it has to be [role, text] or {{"role": …, "content": '
                               "…}, both texts.")
        role, text = pair
        if role not in ROLES:
            raise RequestError(f"Turn {number} has the role {shown(role)}; it has to be one of {', '.join(ROLES)}.")
        turns.append((role, text))
    return tuple(turns)


def matches_patterns(prompt: str, patterns: Sequence[str]) -> bool:
    """Return whether one of these regular expressions matches at the start of the prompt, ignoring case."""
    return any(compile_pattern(pattern).search(prompt[:MAX_MATCHED_LENGTH]) for pattern in patterns)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the compiled expression, which Python caches."""
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)
