"""Reads the stream of one answer into tokens, with ids and log probabilities where the server sends them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import ServerError
from engine.recorder import LARGEST, LONGEST_PIECE, seen
from engine.servers.report import whole
from engine.trace import Piece

OWN_IDS = 2**30  # ids from here on are the page's own, for tokens that the server sends only as text
LONGEST_CHUNK = 4096  # tokens
LEAST_LOGPROB = -1e30  # what float32 can hold; engines write −9999 and the like for a log probability of −∞
MOST_PROMPT_IDS = 2**18  # a line of a trace may hold twice as many values
SPOKEN = ("reasoning_content", "reasoning", "content")  # the names of text fields in a chunk, thinking first


@dataclass(frozen=True)
class Token:
    """A token's id, its text, and its log probability under the target; NaN where the server does not send one."""

    id: int
    piece: Piece
    logprob: float = math.nan


@dataclass
class AnswerReader:
    """Reads the events of an answer of at most so many tokens; ``prompt_ids`` and ``finish`` are filled once the server
    has sent them."""

    most_tokens: int
    prompt_ids: tuple[int, ...] = ()
    finish: str = ""
    _taken: int = 0
    _own: dict[str, int] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any]) -> list[Token]:
        """The tokens of an event, none for one without text. ServerError where it is not an event of an answer."""
        if "error" in event:
            said = event["error"]
            words = said.get("message") if isinstance(said, Mapping) else said
            quoted = repr(" ".join(whole(words).split())[:200]) if isinstance(words, str) else seen(words)
            raise ServerError(f"The server gave up: {quoted}.")
        choices = event.get("choices")
        if not isinstance(choices, list):
            held = seen(", ".join(event)) if event else "nothing in it"
            raise ServerError(f"The server sent an event with {held}, where choices are expected.")
        self.prompt_ids = self.prompt_ids or _ids(event.get("prompt_token_ids"), "prompt_token_ids", MOST_PROMPT_IDS)
        if not choices:
            return []
        choice = _named(choices[0], "a choice")
        finish = choice.get("finish_reason")
        self.finish = finish[:40] if isinstance(finish, str) else self.finish
        tokens = self._tokens(choice)
        self._taken += len(tokens)
        if self._taken > self.most_tokens:
            raise ServerError(f"The server wrote more than the {self.most_tokens:,} tokens that it was asked for; what "
                              "came until then is kept.")
        return tokens

    def _tokens(self, choice: Mapping[str, Any]) -> list[Token]:
        delta = _named(choice.get("delta") or {}, "a delta")
        text = "".join(_text(delta.get(name)) for name in SPOKEN if delta.get(name))
        told = _named(choice.get("logprobs") or {}, "logprobs").get("content") or []
        ids = _ids(choice.get("token_ids"), "token_ids", LONGEST_CHUNK)
        if not isinstance(told, list) or len(told) > LONGEST_CHUNK:
            raise ServerError(f"The server sent {seen(told)} as logprobs, where a list of tokens is expected.")
        pieces = [_piece(_named(token, "a token")) for token in told]
        logprobs = [_logprob(token) for token in told]
        if ids and len(ids) == len(pieces):
            return [Token(*token) for token in zip(ids, pieces, logprobs, strict=True)]
        if not pieces and (text or ids):
            parts = [text[place:place + LONGEST_PIECE] for place in range(0, len(text), LONGEST_PIECE)]
            pieces = [*parts, *[""] * (len(ids) - len(parts))]
            logprobs = [math.nan] * len(pieces)
        return [Token(self._id(piece), piece, logprob) for piece, logprob in zip(pieces, logprobs, strict=True)]

    def _id(self, piece: Piece) -> int:
        return self._own.setdefault(str(piece), OWN_IDS + len(self._own))


def _named(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ServerError(f"The server sent {what} that is {seen(value)}, where an object is expected.")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ServerError(f"The server sent {seen(value)} as text.")
    return whole(value)


def _piece(told: Mapping[str, Any]) -> Piece:
    """A token's text, or its bytes where the token alone is not whole characters."""
    data, text = told.get("bytes"), _text(told.get("token", ""))
    if len(text) > LONGEST_PIECE:
        raise ServerError(f"The server sent a token of {len(text):,} characters, where {LONGEST_PIECE:,} are allowed.")
    if "\ufffd" not in text or not isinstance(data, list):
        return text
    if len(data) > LONGEST_PIECE or not all(type(byte) is int and 0 <= byte <= 255 for byte in data):
        raise ServerError(f"The server sent {seen(data)} as the bytes of a token; they have to be at most "
                          f"{LONGEST_PIECE:,} numbers from 0 to 255.")
    return tuple(data)


def _logprob(told: Mapping[str, Any]) -> float:
    value: Any = told.get("logprob")
    known = type(value) in (int, float) and LEAST_LOGPROB <= value <= 0
    return float(value) if known else math.nan


def _ids(value: Any, name: str, most: int) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > most:
        raise ServerError(f"The server's {name} are {seen(value)}, where a list of at most {most:,} is allowed.")
    if not all(type(token) is int and 0 <= token < LARGEST for token in value):
        raise ServerError(f"The server's {name} hold something other than token ids.")
    return tuple(value)
