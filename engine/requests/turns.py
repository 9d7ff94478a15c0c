"""The conversation before a prompt: turns, each a role and a text, read from untrusted values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import RequestError

Turn = tuple[str, str]  # role and text
ROLES = ("system", "user", "assistant")
FORMS = 'it has to be [role, text] or {"role": …, "content": …}, both texts'


def turns_from(value: Any) -> tuple[Turn, ...]:
    """The turns in a list of [role, text] or {"role", "content"}; RequestError names the first that is neither."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise RequestError(f"The turns are {_seen(value)}; they have to be a list of turns.")
    return tuple(_turn(each, place) for place, each in enumerate(value, start=1))


def _turn(value: Any, place: int) -> Turn:
    pair = [value.get("role"), value.get("content")] if isinstance(value, Mapping) else value
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
        raise RequestError(f"Turn {place} is {_seen(value)}; {FORMS}.")
    role, text = pair
    if role not in ROLES:
        raise RequestError(f"Turn {place} has the role {role[:20]!r}; it has to be one of {', '.join(ROLES)}.")
    return role, text


def _seen(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
