"""An attached server: its kind, model and version, and its answers."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, Field

from engine.errors import ServerError
from engine.recorder import MAX_NAME_LENGTH
from engine.records import MAX_INT32, PromptRequest, Sampling
from engine.requests.rig_names import MODEL_MARK
from engine.servers.answer import MAX_CHUNK_LENGTH, Answer, Message, ServerReport, parse
from engine.servers.client import JSON, STREAM_SECONDS, Client, Events
from engine.servers.kinds import KINDS, UNKNOWN, ServerKind

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
PROBE_REQUEST = PromptRequest("Count from one to ten.", max_tokens=16)  # shows what the server reports
PROBE_SECONDS = 120.0
MAX_LISTED_MODELS = 12  # in a message
# Sent only if they differ from the default: not every server knows them.
RARE = ("top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
MAX_TIMED_TOKENS, MAX_TIMED_SECONDS = 64, 60.0  # a longer answer is not timed to its end


def _check_name(name: str) -> str:
    if not (0 < len(name) <= MAX_NAME_LENGTH and name.isprintable()):
        raise ValueError(f"a name has 1 to {MAX_NAME_LENGTH} printable characters")
    return name


Name = Annotated[str, AfterValidator(_check_name)]


class _ListedModel(Message):
    id: Name
    root: Any = None
    owned_by: Any = None
    max_model_len: Any = None


class _ListedModels(Message):
    data: list[_ListedModel] = Field(default=[], max_length=4096)


class _Version(Message):
    version: Name = Field(validation_alias=AliasChoices("version", "build_info"))


class _Usage(Message):
    completion_tokens: int = Field(ge=0, le=MAX_TIMED_TOKENS)


class _WholeAnswer(Message):
    usage: _Usage


@dataclass(frozen=True)
class Server:
    """An open server. ``trial`` is its report of a short trial request, None if it reported nothing; ``width`` is
    the number of tokens that each step of it drafted, 0 if the server does not report single steps."""

    client: Client
    kind: ServerKind
    model: str
    version: str = ""
    context_limit: int = 0
    trial: ServerReport | None = None
    width: int = 0

    @property
    def title(self) -> str:
        return f"{self.kind.title} {self.version}".strip()

    def describe(self, report: ServerReport | None) -> str:
        if report and report.accepted_per_step:
            return f"{self.title} reports how many tokens each step drafted and accepted."
        if report and report.steps == 0:
            return f"{self.title} drafted nothing for this text; if it drafts, it reports it."
        reported = "sums alone" if report else "nothing of speculation"
        shown = ("a chunk of its answer is a round" if self.kind.chunk_is_step
                 else "its rounds are not known, only the chunks that its answer came in")
        return f"{self.title} reports {reported}: {shown}. {self.kind.more}"

    def answer(self, request: PromptRequest, seconds: float = STREAM_SECONDS) -> AbstractContextManager[Events]:
        """Yield an iterator over the events of its answer, which ends after ``seconds``."""
        body = {**self.body(request), **self.kind.asks, "logprobs": True, "stream": True,
                "stream_options": {"include_usage": True}}
        return self.client.stream(CHAT, body, seconds)

    def body(self, request: PromptRequest) -> dict[str, Any]:
        """Return the body of a request to the server, in the fields that all kinds know."""
        sampling = request.sampling
        turns = [*request.turns, ("user", request.prompt)]
        body = {"model": self.model, "messages": [{"role": role, "content": text} for role, text in turns],
                "max_tokens": request.max_tokens, "temperature": sampling.temperature, "top_p": sampling.top_p,
                "seed": sampling.seed}
        default = Sampling()
        body |= {name: getattr(sampling, name) for name in RARE if getattr(sampling, name) != getattr(default, name)}
        return {**body, "logit_bias": dict(sampling.logit_bias)} if sampling.logit_bias else body

    def time_answer(self, prompt: str) -> tuple[int, float]:
        """Measure one answer: how many tokens it had, and how many seconds it took."""
        body, began = self.body(PromptRequest(prompt, max_tokens=MAX_TIMED_TOKENS)), perf_counter()
        answer = parse(_WholeAnswer, self.client.text(CHAT, body, JSON, MAX_TIMED_SECONDS))
        return answer.usage.completion_tokens, perf_counter() - began


def open_server(client: Client, interrupt: Callable[[], None] = lambda: None) -> Server:
    """Ask a server for its kind, model and version, and send a short trial request. ServerError if it cannot be used.

    ``interrupt`` is called between the events of the answer; it raises to stop.
    """
    model = _choose(client, parse(_ListedModels, client.text(MODELS, kind=JSON)).data)
    kind = next((kind for kind in KINDS.values() if kind.owner == model.owned_by), UNKNOWN)
    limit, version = model.max_model_len, ""
    with suppress(ServerError):  # nothing depends on it
        version = parse(_Version, client.text(kind.version, kind=JSON, seconds=5.0)).version if kind.version else ""
    server = Server(client, kind, model.id, version, limit if type(limit) is int and 0 < limit <= MAX_INT32 else 0)
    answer, written = Answer(kind, MAX_CHUNK_LENGTH), 0  # some write more than they are asked for
    with server.answer(PROBE_REQUEST, PROBE_SECONDS) as events:
        for tokens in answer.chunks(events):
            interrupt()
            written += len(tokens or ())
    report = answer.report
    # whether it reports the steps of this answer and no others
    per_step = report.accepted_per_step if report else []
    fits = per_step and sum(per_step) + len(per_step) >= written - 1
    return replace(server, trial=report, width=report.width if report and fits else 0)


def _choose(client: Client, models: Sequence[_ListedModel]) -> _ListedModel:
    """Choose the model that the address names, else the only one; several names of the same weights are one."""
    if not models:
        raise ServerError(f"{client.address} lists no model under {MODELS}; load one there.")
    names = [model.id for model in models]
    several = len({str(model.root or model.id) for model in models}) > 1
    if client.model not in names and (client.model or several):
        wrong = f"has no model {client.model[:MAX_NAME_LENGTH]!r}" if client.model else f"serves {len(names)} models"
        more = ", …" if len(names) > MAX_LISTED_MODELS else ""
        raise ServerError(f"{client.address} {wrong}; name one of {', '.join(names[:MAX_LISTED_MODELS])}{more}, as in "
                          f"{client.address}{MODEL_MARK}{names[0]}.")
    return next(model for model in models if model.id == (client.model or names[0]))
