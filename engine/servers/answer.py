"""What a server sends, checked: the events of an answer become tokens, with ids and log probabilities if it sends
them, and its report of the steps that wrote them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engine.errors import ServerError
from engine.recorder import MAX_PIECE_LENGTH, join_pieces, quoted
from engine.records import MAX_INT32
from engine.servers.client import Events, refusal_message
from engine.servers.kinds import ServerKind
from engine.trace import Piece

FIRST_PAGE_ID = 2**30  # ids from here on are the page's own, for tokens that the server sends only as text
MAX_CHUNK_LENGTH = 4096  # tokens
MAX_STEPS = 2**16  # of one answer
MAX_DRAFTED = 1024  # tokens in one step; the drafters in use draft 16, n-grams some hundreds
MIN_LOGPROB = -1e30  # what float32 can hold; engines write −9999 and the like for a log probability of −∞
MAX_PROMPT_IDS = 2**18  # half of what a trace's line may hold

TokenId = Annotated[int, Field(ge=0, lt=MAX_INT32)]
Count = Annotated[int, Field(ge=0, le=MAX_INT32)]
StepCount = Annotated[int, Field(ge=0, le=MAX_DRAFTED)]
Byte = Annotated[int, Field(ge=0, le=255)]


class Message(BaseModel):
    """A part of what a server sends; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)


Sent = TypeVar("Sent", bound=Message)


class _ListedToken(Message):
    token: str = Field(default="", max_length=MAX_PIECE_LENGTH)
    bytes: list[Byte] | None = Field(default=None, max_length=MAX_PIECE_LENGTH, fail_fast=True)
    logprob: Any = None


class _Logprobs(Message):
    content: list[_ListedToken] | None = Field(default=None, max_length=MAX_CHUNK_LENGTH, fail_fast=True)


class _Delta(Message):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None  # the same text; some servers send it under both names


class _Choice(Message):
    model_config = ConfigDict(extra="allow")
    delta: _Delta | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[TokenId] | None = Field(default=None, max_length=MAX_CHUNK_LENGTH, fail_fast=True)
    finish_reason: Any = None


class _AnswerEvent(Message):
    model_config = ConfigDict(extra="allow")
    choices: list[_Choice] | None = Field(default=None, max_length=16, fail_fast=True)
    prompt_token_ids: list[TokenId] | None = Field(default=None, max_length=MAX_PROMPT_IDS, fail_fast=True)
    error: Any = None


class ServerReport(Message):
    """What a server reports about speculation in one answer; counts of tokens. None: not reported."""

    accepted_per_step: list[StepCount] = Field(default=[], max_length=MAX_STEPS, fail_fast=True)
    drafted_per_step: list[StepCount] = Field(default=[], max_length=MAX_STEPS, fail_fast=True)
    width: StepCount = 0  # the most that it drafts in a step, 0 if unknown
    steps: Count | None = None  # how many
    total_accepted: Count | None = None
    total_drafted: Count | None = None
    written: Count = 0  # all tokens of the answer

    @model_validator(mode="after")
    def _fits(self) -> "ServerReport":
        pairs = [(self.total_accepted or 0, MAX_INT32 if self.total_drafted is None else self.total_drafted)]
        same_length = len(self.accepted_per_step) == len(self.drafted_per_step)
        if same_length:
            pairs += zip(self.accepted_per_step, self.drafted_per_step, strict=True)
        if not same_length or any(accepted > drafted for accepted, drafted in pairs):
            raise ValueError("more tokens were accepted than drafted")
        return self

    def sentence(self, title: str) -> str:
        accepted, drafted = ("?" if count is None else count for count in (self.total_accepted, self.total_drafted))
        words = f"{title}'s own figures: {accepted} of {drafted} drafted tokens accepted"
        if self.steps and self.total_accepted is not None:
            return f"{words} in {self.steps} steps, so {1 + self.total_accepted / self.steps:.3g} tokens a step."
        if (passes := self.written - (self.total_accepted or 0)) > 0:
            return f"{words}, so its {self.written} tokens took about {passes} passes."
        return f"{words}."


def parse(model: type[Sent], data: str | Mapping[str, Any]) -> Sent:
    """Check JSON that a server sent, or a value in it. Raises ServerError, which names the unexpected value."""
    try:
        return model.model_validate_json(data) if isinstance(data, str) else model.model_validate(data)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
    if fault["type"] == "json_invalid":
        raise ServerError(f"The server sent {quoted(data)}, which is not complete JSON.")
    place, words = ".".join(map(str, fault["loc"])), fault["msg"].removeprefix("Value error, ")
    raise ServerError(f"The server sent {quoted(fault['input'])}{f' as {place}' if place else ''}: "
                      f"{words[0].lower()}{words[1:]}.")


@dataclass(frozen=True)
class Token:
    """A token's id, its text, and its log probability under the target; NaN if the server does not send one."""

    id: int
    piece: Piece
    logprob: float = math.nan


@dataclass
class Answer:
    """Reads the events of an answer. Fields with a default are set once the server has sent them."""

    kind: ServerKind
    max_tokens: int
    prompt_ids: tuple[int, ...] = ()
    report: ServerReport | None = None
    finish: str = ""
    _count: int = 0
    _page_ids: dict[str, int] = field(default_factory=dict)

    def chunks(self, events: Events) -> Iterator[list[Token] | None]:
        """Yield the tokens of each event, and None while none comes. An error after the end of the text is ignored."""
        while True:
            try:
                event = next(events)
            except StopIteration:
                return
            except ServerError:
                if self.finish:
                    return
                raise
            yield None if event is None else self._read(event)

    def _read(self, data: str) -> list[Token]:
        event = parse(_AnswerEvent, data)
        if event.error:
            raise ServerError(f"The server reported an error.{refusal_message(data)}")
        choice = event.choices[0] if event.choices else _Choice()
        self.prompt_ids = self.prompt_ids or tuple(event.prompt_token_ids or ())
        self.report = _report(self.kind, event.model_extra) or _report(self.kind, choice.model_extra) or self.report
        self.finish = str(choice.finish_reason or self.finish)[:40]
        tokens = self._tokens(choice)
        self._count += len(tokens)
        if self._count > self.max_tokens:
            raise ServerError(f"The server wrote more than the {self.max_tokens:,} tokens that were requested; the "
                              "text so far is kept.")
        return tokens

    def _tokens(self, choice: _Choice) -> list[Token]:
        delta, ids, unknown = choice.delta or _Delta(), choice.token_ids or [], math.nan
        text = (delta.reasoning_content or delta.reasoning or "") + (delta.content or "")
        listed = choice.logprobs and choice.logprobs.content or ()
        tokens: list[tuple[Piece, float]] = [
            (tuple(token.bytes) if token.bytes and "\ufffd" in token.token else token.token, _logprob(token.logprob))
            for token in listed]
        before, after = _not_listed(text, [piece for piece, _ in tokens])
        tokens = [*((piece, unknown) for piece in before), *tokens, *((piece, unknown) for piece in after)]
        if not ids or len(ids) != len(tokens):
            if before or after or not tokens:
                tokens += [("", unknown)] * (len(ids) - len(tokens))
            ids = [self._page_ids.setdefault(str(piece), FIRST_PAGE_ID + len(self._page_ids)) for piece, _ in tokens]
        return [Token(token, piece, logprob) for token, (piece, logprob) in zip(ids, tokens, strict=True)]


def _report(kind: ServerKind, extra: Mapping[str, Any] | None) -> ServerReport | None:
    """Return the report in this event or choice; None if it has no figures on speculation."""
    for place, names in kind.reports.items():
        found: Any = extra
        for name in place:
            found = found.get(name) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping) and any(
                names.get(field) in found for field in ("steps", "total_accepted", "accepted_per_step")):
            return parse(ServerReport, {
                field: found[name] for field, name in names.items() if found.get(name) is not None})
    return None


def _logprob(value: Any) -> float:
    return float(value) if type(value) in (int, float) and MIN_LOGPROB <= value <= 0 else math.nan


def _not_listed(text: str, pieces: Sequence[Piece]) -> tuple[list[str], list[str]]:
    """Return the text before and after the listed tokens, in pieces of at most ``MAX_PIECE_LENGTH``; empty if the
    tokens are not part of the text (a stop token)."""
    listed = join_pieces(pieces)
    before = after = ""
    if text.startswith(listed):
        after = text[len(listed):]
    elif text.endswith(listed):
        before = text[:-len(listed)]
    first, last = ([part[start:start + MAX_PIECE_LENGTH] for start in range(0, len(part), MAX_PIECE_LENGTH)]
                   for part in (before, after))
    return first, last
