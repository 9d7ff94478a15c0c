"""Reads the stream of one answer into tokens, with ids and log probabilities if the server sends them, and makes
rounds of what its report and the sizes of its chunks say about its steps.

A step writes the drafted tokens that it accepted and one of the target's own. The first token comes from reading the
prompt. A server may leave steps that drafted nothing out of its report; each of them wrote one token.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.errors import ServerError
from engine.recorder import MAX_INT32, MAX_PIECE_LENGTH, UNKNOWN_TOKEN, seen
from engine.records import Acceptance, DraftTree, Round, Verification
from engine.servers.kind import MAX_DRAFTED, ServerReport, whole
from engine.trace import Piece
from engine.trace.reading import NOT_RECORDED

FIRST_PAGE_ID = 2**30  # ids from here on are the page's own, for tokens that the server sends only as text
MAX_CHUNK_LENGTH = 4096  # tokens
MIN_LOGPROB = -1e30  # what float32 can hold; engines write −9999 and the like for a log probability of −∞
MAX_PROMPT_IDS = 2**18  # a line of a trace may hold twice as many values
THINKING = ("reasoning_content", "reasoning")  # the names of one text; some servers send it under both


@dataclass(frozen=True)
class Token:
    """A token's id, its text, and its log probability under the target; NaN if the server does not send one."""

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
    _page_ids: dict[str, int] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any]) -> list[Token]:
        """The tokens of an event, none for one without text. ServerError if it is not an event of an answer."""
        if "error" in event:
            error = event["error"]
            words = error.get("message") if isinstance(error, Mapping) else error
            quoted = repr(" ".join(whole(words).split())[:200]) if isinstance(words, str) else seen(words)
            raise ServerError(f"The server gave up: {quoted}.")
        choices = event.get("choices")
        if choices is None and "usage" in event:  # the report at the end
            choices = []
        if not isinstance(choices, list):
            held = seen(", ".join(event)) if event else "nothing in it"
            raise ServerError(f"The server sent an event with {held}; choices are expected.")
        self.prompt_ids = self.prompt_ids or _ids(event.get("prompt_token_ids"), "prompt_token_ids", MAX_PROMPT_IDS)
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
        thinking = next((_text(delta[name]) for name in THINKING if delta.get(name)), "")
        text = thinking + _text(delta.get("content") or "")
        listed = _named(choice.get("logprobs") or {}, "logprobs").get("content") or []
        ids = _ids(choice.get("token_ids"), "token_ids", MAX_CHUNK_LENGTH)
        if not isinstance(listed, list) or len(listed) > MAX_CHUNK_LENGTH:
            raise ServerError(f"The server sent {seen(listed)} as logprobs; a list of tokens is expected.")
        pieces = [_piece(_named(token, "a token")) for token in listed]
        logprobs = [_logprob(token) for token in listed]
        before, after = _not_listed(text, pieces)
        pieces = [*before, *pieces, *after]
        logprobs = [math.nan] * len(before) + logprobs + [math.nan] * len(after)
        if ids and len(ids) == len(pieces):
            return [Token(*token) for token in zip(ids, pieces, logprobs, strict=True)]
        if before or after or not pieces:  # their tokens may be more than these
            more = max(0, len(ids) - len(pieces))
            pieces, logprobs = [*pieces, *[""] * more], [*logprobs, *[math.nan] * more]
        return [Token(self._id(piece), piece, logprob) for piece, logprob in zip(pieces, logprobs, strict=True)]

    def _id(self, piece: Piece) -> int:
        return self._page_ids.setdefault(str(piece), FIRST_PAGE_ID + len(self._page_ids))


def _not_listed(text: str, pieces: Sequence[Piece]) -> tuple[list[str], list[str]]:
    """What a chunk's text has before and after its listed tokens, cut to pieces that a trace holds; nothing where these
    are not the text's beginning or end, as a stop token is not."""
    listed = b"".join(piece.encode() if isinstance(piece, str) else bytes(piece) for piece in pieces).decode(
        "utf8", "replace")
    if text.startswith(listed):
        return [], _cut(text[len(listed):])
    return (_cut(text[:-len(listed)]) if text.endswith(listed) else []), []


def _cut(text: str) -> list[str]:
    return [text[start:start + MAX_PIECE_LENGTH] for start in range(0, len(text), MAX_PIECE_LENGTH)]


def _named(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ServerError(f"The server sent {what} that is {seen(value)}; an object is expected.")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ServerError(f"The server sent {seen(value)} as text.")
    return whole(value)


def _piece(token: Mapping[str, Any]) -> Piece:
    """A token's text, or its bytes if the token alone is not whole characters."""
    data, text = token.get("bytes"), _text(token.get("token", ""))
    if len(text) > MAX_PIECE_LENGTH:
        raise ServerError(
            f"The server sent a token of {len(text):,} characters; {MAX_PIECE_LENGTH:,} are allowed.")
    if "\ufffd" not in text or not isinstance(data, list):
        return text
    if len(data) > MAX_PIECE_LENGTH or not all(type(byte) is int and 0 <= byte <= 255 for byte in data):
        raise ServerError(f"The server sent {seen(data)} as the bytes of a token; they have to be at most "
                          f"{MAX_PIECE_LENGTH:,} numbers from 0 to 255.")
    return tuple(data)


def _logprob(token: Mapping[str, Any]) -> float:
    value: Any = token.get("logprob")
    known = type(value) in (int, float) and MIN_LOGPROB <= value <= 0
    return float(value) if known else math.nan


def _ids(value: Any, name: str, most: int) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > most:
        raise ServerError(f"The server's {name} are {seen(value)}; a list of at most {most:,} is allowed.")
    if not all(type(token) is int and 0 <= token < MAX_INT32 for token in value):
        raise ServerError(f"The server's {name} hold something other than token ids.")
    return tuple(value)


@dataclass(frozen=True)
class ServerStep:
    """One step: it wrote ``written`` tokens of the text, at least one, after drafting ``drafted``. ``cut``: the text
    ended before the step did, so its last token was a drafted one, too."""

    written: int
    drafted: int
    cut: bool = False


def steps_of_chunks(sizes: Sequence[int], width: int) -> list[ServerStep]:
    """The steps, taking each chunk for one. ``sizes`` are the numbers of tokens in the chunks, from the text's second
    token on; ``width`` is how many tokens the server drafts in every step, 0 if unknown."""
    return [ServerStep(size, max(width, size - 1)) for size in sizes if size]


def fits(steps: Sequence[ServerStep], report: ServerReport | None) -> bool:
    """Whether the server's sums are those of these steps."""
    accepted = sum(step.written - 1 for step in steps)
    return report is not None and (report.steps, report.kept) == (len(steps), accepted)


def steps_of_report(sizes: Sequence[int], report: ServerReport) -> list[ServerStep] | None:
    """The steps that the server reported; None if it reported none, or if they do not fit the tokens: each wrote
    one at least."""
    if not 0 < len(report.accepted) <= sum(sizes):
        return None
    return _joined(sizes, report) or _counted(sum(sizes), report)


def _counted(tokens: int, report: ServerReport) -> list[ServerStep] | None:
    """The steps where chunks hold several of them: from the report alone, provided that it has them all."""
    written = [kept + 1 for kept in report.accepted]
    written[-1] -= sum(written) - tokens  # tokens after a stop token may be accepted, but are not written
    if not 1 <= written[-1] <= report.accepted[-1] + 1:
        return None
    return [ServerStep(size, tried, size <= kept)
            for size, tried, kept in zip(written, report.drafted, report.accepted, strict=True)]


def _joined(sizes: Sequence[int], report: ServerReport) -> list[ServerStep] | None:
    """The steps where each chunk is one: a chunk of one token that no reported step explains drafted nothing. Where
    both readings fit, the report comes first."""
    reported, steps = deque(zip(report.accepted, report.drafted, strict=True)), []
    for number, size in enumerate(sizes):
        kept, tried = reported[0] if reported else (-2, 0)
        cut = number == len(sizes) - 1 and len(reported) == 1 and 0 < size <= kept
        if size == kept + 1 or cut:
            steps.append(ServerStep(size, tried, cut))
            reported.popleft()
        elif size == 1:
            steps.append(ServerStep(1, 0))
        elif size:
            return None
    return None if reported else steps


def chain_round(index: int, start: int, tokens: Sequence[Token], step: ServerStep) -> Round:
    """The round of a step. ``tokens`` are the root, the accepted tokens and the bonus token; rejected drafted tokens
    are unknown. ``start`` is the length of the cache before the round. If the end of the text cut the step, its last
    token is a drafted child of the last kept row. Its rows are those of the tokens, and of ``MAX_DRAFTED`` at most."""
    kept = len(tokens) - 1
    known = tokens if step.cut else tokens[:-1]
    size = max(1 + min(step.drafted, MAX_DRAFTED), len(known))
    ids = np.full(size, UNKNOWN_TOKEN, np.int32)
    ids[:len(known)] = [token.id for token in known]
    choice, chosen, offered = np.full(size, NOT_RECORDED, np.int32), _unknown(size), _unknown(size)
    choice[:kept] = [token.id for token in tokens[1:]]
    chosen[:kept] = [token.logprob for token in tokens[1:]]
    offered[1:len(known)] = chosen[:len(known) - 1]
    offered[0] = 0
    drafters = np.ones(size, np.int32)
    drafters[0] = 0
    logprobs = _unknown(size)
    logprobs[0] = 0
    tree = DraftTree(ids, np.maximum(np.arange(size, dtype=np.int32) - 1, 0), logprobs, drafters)
    verification = Verification(choice, chosen, _unknown(size), _unknown(size), offered, _unknown(size))
    return Round(index, start, (), (), tree, verification,
                 Acceptance(np.arange(kept, dtype=np.int32), tokens[-1].id))


def _unknown(size: int) -> np.ndarray:
    return np.full(size, np.nan, np.float32)
