"""Prompt files: JSON lines with a ``prompt`` (or ``turns``, whose first is used) and an optional ``domain``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import RequestError
from engine.machine.files import open_file
from engine.requests.turns import Turn

LARGEST_FILE_BYTES = 32 * 2**20  # far more prompts than a sweep can measure


@dataclass(frozen=True)
class Prompt:
    """One line of a prompt file; ``turns`` are the conversation before the prompt, which prompt files do not have."""

    text: str
    domain: str = ""
    turns: tuple[Turn, ...] = ()


def read_prompts(path: Path) -> list[Prompt]:
    """The prompts of a file; RequestError names the first line that is not a prompt."""
    try:
        with open_file(path) as file:
            return prompts_from(file.read(LARGEST_FILE_BYTES + 1), path.name)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RequestError(f"The prompt file {path.name} cannot be read: {said}.") from error


def prompts_from(data: bytes, name: str) -> list[Prompt]:
    """The prompts in a file's bytes, see ``read_prompts``."""
    rows = _text(data, name).split("\n")  # not splitlines: JSON text may hold other line separators
    prompts = [_prompt(row, f"{name}, line {number}") for number, row in enumerate(rows, 1) if row.strip()]
    if not prompts:
        raise RequestError(f"The prompt file {name} holds no prompt; write one JSON object a line.")
    return prompts


def _text(data: bytes, name: str) -> str:
    if len(data) > LARGEST_FILE_BYTES:
        raise RequestError(f"The prompt file {name} is larger than {LARGEST_FILE_BYTES >> 20} MB, which is the most "
                           "that is read; split it.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise RequestError(f"The prompt file {name} is not UTF-8 (line {line}, byte {error.start}); save it as "
                           "UTF-8.") from error


def _prompt(row: str, place: str) -> Prompt:
    try:
        value = json.loads(row)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{place} is not JSON ({error}); write one object a line.") from error
    text = _first_turn(value) if isinstance(value, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise RequestError(f'{place} has no text under "prompt" or "turns".')
    domain = value.get("domain", "")
    if not isinstance(domain, str):
        raise RequestError(f'{place} has a "domain" that is not a text: {str(domain)[:40]}.')
    try:
        (text + domain).encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{place} holds half of a character (a lone surrogate); write whole characters.") from error
    return Prompt(text, domain)


def _first_turn(value: dict[str, Any]) -> Any:
    turns = value.get("turns")
    return value.get("prompt", turns[0] if isinstance(turns, list) and turns else None)
