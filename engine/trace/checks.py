"""Checks of the values in an untrusted file: each returns the value in its type, or raises ValueError with the reason.

JSON allows values that the rest of Canopy cannot hold: lone surrogates, integers of a thousand digits, infinities.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.records import Request, Sampling
from engine.requests.limits import LARGEST as LARGEST_SEED
from engine.trace.limits import LARGEST, LONGEST_NAME, LONGEST_NOTE, LONGEST_PIECE, LONGEST_TEXT, MOST_PROMPT_TOKENS
from engine.trace.lines import Piece


def seen(value: Any) -> str:
    """A value as quoted in a sentence."""
    text = ascii(value) if not isinstance(value, list | dict) else type(value).__name__
    return text if len(text) <= 40 else f"{text[:40]}…"


def text(value: Any, name: str, most: int = LONGEST_NAME) -> str:
    """A text of at most ``most`` whole characters."""
    if not isinstance(value, str):
        raise ValueError(f"the {name} is {seen(value)}, where text is allowed")
    if len(value) > most:
        raise ValueError(f"the {name} has {len(value):,} characters, where {most:,} are allowed")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"the {name} holds half of a character (a lone surrogate)") from error
    return value


def whole(value: Any, name: str, least: int = 0, most: int = LARGEST) -> int:
    """A whole number in a range."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"the {name} is {seen(value)}, where a whole number from {least} to {most} is allowed")
    return value


def number(value: Any, name: str, least: float = 0.0, most: float = 1e12) -> float:
    """A finite number in a range."""
    if type(value) not in (int, float) or not math.isfinite(value) or not least <= value <= most:
        raise ValueError(f"the {name} is {seen(value)}, where a number from {least:g} to {most:g} is allowed")
    return float(value)


def named(value: Any, name: str) -> Mapping[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise ValueError(f"the {name} is {seen(value)}, where an object is allowed")
    return value


def listed(value: Any, name: str, most: int) -> list[Any]:
    """A JSON list of at most ``most`` items."""
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"the {name} is {seen(value)}, where a list of at most {most:,} is allowed")
    return value


def words(value: Any, name: str, most: int) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(text(each, name) for each in listed(value, name, most))


def only(value: Mapping[str, Any], name: str, allowed: frozenset[str] | set[str]) -> None:
    """Raise ValueError where an object has any other field than these."""
    if unknown := set(value) - allowed:
        raise ValueError(f"the {name} has a field {seen(min(unknown))}, which no version has")


def token_ids(value: Any, name: str, most: int = MOST_PROMPT_TOKENS) -> tuple[int, ...]:
    """Token ids: a list, or an array as a recorder writes it."""
    if isinstance(value, dict):
        value = packed_array(value, ("<i4", "<i8"), name).tolist()
    return tuple(whole(each, f"{name}'s token") for each in listed(value, name, most))


def packed_array(value: Any, dtypes: tuple[str, ...], name: str) -> Any:
    """A new array from its {dtype, shape, data}, of one of these dtypes."""
    value = named(value, name)
    dtype, data = value["dtype"], value["data"]
    if dtype not in dtypes:
        raise ValueError(f"an array of dtype {seen(dtype)}, where {' or '.join(dtypes)} is allowed")
    shape = tuple(whole(side, f"{name}'s size") for side in listed(value["shape"], f"{name}'s shape", 3))
    if not isinstance(data, str) or not data.isascii():
        raise ValueError(f"the data of {name} are {seen(data)}, where base64 is allowed")
    array = np.frombuffer(base64.b64decode(data, validate=True), np.dtype(dtype))
    if math.prod(shape) != array.size:
        raise ValueError(f"{name} has {array.size} numbers, and its shape is {shape}")
    return array.reshape(shape).copy()


def pieces(value: Any, most: int) -> dict[int, Piece]:
    """Tokens' texts by their ids."""
    given = named(value, "pieces")
    if len(given) > most:
        raise ValueError(f"the text of {len(given):,} tokens, where {most:,} are allowed")
    return {_token(token): _piece(piece) for token, piece in given.items()}


def _token(token: str) -> int:
    if not (token.isascii() and token.isdigit() and len(token) <= 10):
        raise ValueError(f"a piece of the token {seen(token)}, where an id is allowed")
    return whole(int(token), "token of a piece")


def _piece(value: Any) -> Piece:
    if isinstance(value, str):
        return text(value, "text of a token", LONGEST_PIECE)
    return tuple(whole(byte, "byte of a token", 0, 255) for byte in listed(value, "text of a token", LONGEST_PIECE))


def sampling(value: Any) -> Sampling:
    """The sampling of a request."""
    given = named(value, "sampling")
    only(given, "sampling", {"temperature", "top_k", "top_p", "seed"})
    usual = Sampling()
    return Sampling(
        number(given.get("temperature", usual.temperature), "temperature", 0, 1e6),
        whole(given.get("top_k", usual.top_k), "top_k", 0, LARGEST_SEED),
        number(given.get("top_p", usual.top_p), "top_p", 0, 1),
        whole(given.get("seed", usual.seed), "seed", -LARGEST_SEED, LARGEST_SEED))


def request(value: Any, bare: bool) -> Request:
    """A request. ``bare`` allows one without the prompt's tokens, which a recorder may leave out. The method may have
    any name, since rounds are shown by their contents."""
    given = named(value, "request")
    usual = Request(())
    only(given, "request", {"prompt_ids", "method", "budget", "max_tokens", "sampling", "stop_ids", "split", "pace"})
    prompt_ids = token_ids(given["prompt_ids"], "prompt_ids")
    if not prompt_ids and not bare:
        raise ValueError("the prompt_ids are empty, where at least one token is allowed")
    return Request(
        prompt_ids, method=text(given["method"], "method"), budget=whole(given["budget"], "budget"),
        max_tokens=whole(given["max_tokens"], "max_tokens"), sampling=sampling(given["sampling"]),
        stop_ids=frozenset(token_ids(given["stop_ids"], "stop_ids", 4096)),
        split=text(given.get("split", usual.split), "split"), pace=text(given.get("pace", usual.pace), "pace"))


def revisions(value: Any) -> dict[str, str]:
    """Versions by the name of what they belong to."""
    given = named(value, "revisions")
    if len(given) > 256:
        raise ValueError(f"{len(given):,} revisions, where 256 are allowed")
    return {text(name, "name of a revision", LONGEST_NOTE): text(each, "revision", LONGEST_NOTE)
            for name, each in given.items()}


def seconds(value: Any) -> dict[str, float]:
    """Seconds by stage of a round."""
    given = named(value, "seconds")
    if len(given) > 64:
        raise ValueError(f"{len(given):,} stages, where 64 are allowed")
    return {text(stage, "name of a stage"): number(each, f"time of {seen(stage)}") for stage, each in given.items()}


def prompt(value: Any) -> str:
    """The prompt's text."""
    return text(value, "prompt", LONGEST_TEXT)
