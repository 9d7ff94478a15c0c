"""Prompt files: JSON lines with a ``prompt`` (or ``turns``, of which the first is used) and an optional ``domain``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from engine.errors import RequestError


@dataclass(frozen=True)
class Prompt:
    """One line of a prompt file."""

    text: str
    domain: str = ""


def read_prompts(path: Path) -> list[Prompt]:
    """The prompts of a file; RequestError names the line that is not one."""
    try:
        rows = path.read_bytes().decode("utf8").splitlines()
    except OSError as error:
        raise RequestError(f"The prompt file {path.name} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise RequestError(
            f"The prompt file {path.name} is not UTF-8 (byte {error.start}); save it as UTF-8.") from error
    prompts = [_prompt(row, f"{path.name}, line {number}") for number, row in enumerate(rows, 1) if row.strip()]
    if not prompts:
        raise RequestError(f"The prompt file {path.name} holds no prompt; write one JSON object a line.")
    return prompts


def _prompt(row: str, place: str) -> Prompt:
    try:
        value = json.loads(row)
    except ValueError as error:
        raise RequestError(f"{place} is not JSON ({error}); write one object a line.") from error
    turns = value.get("turns") if isinstance(value, dict) else None
    text = value.get("prompt", turns[0] if isinstance(turns, list) and turns else None) if isinstance(
        value, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise RequestError(f'{place} has no text under "prompt" or "turns".')
    return Prompt(text, str(value.get("domain", "")))
