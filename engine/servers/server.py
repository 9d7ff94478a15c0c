"""An attached server: its kind, model and version, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from engine.errors import ServerError
from engine.recorder import LARGEST, seen
from engine.records import PromptRequest
from engine.servers import KINDS
from engine.servers.answer import LONGEST_CHUNK, AnswerReader
from engine.servers.client import STREAM_SECONDS, Client, Events
from engine.servers.kind import UNKNOWN, Counts, ServerKind, ServerReport, counts_of

CHAT = "/v1/chat/completions"
TRIAL = PromptRequest("Count from one to ten.", max_tokens=16)  # a short request that shows what the server reports
TRIAL_SECONDS = 120.0
LONGEST_NAME = 200  # characters of a model's name or a version


@dataclass(frozen=True)
class Server:
    """An open server. ``trial`` is its report of a short trial request, None where it reported nothing; ``width`` is
    the number of tokens that each step of it drafted, 0 where the server does not report single steps."""

    client: Client
    kind: ServerKind
    model: str
    version: str
    context_limit: int
    trial: ServerReport | None = None
    width: int = 0

    @property
    def title(self) -> str:
        """The names of its kind and version."""
        return f"{self.kind.title} {self.version}".strip()

    def tells(self, report: ServerReport | None) -> str:
        """A sentence on how much the server reported of a request."""
        if report and report.accepted:
            return f"{self.title} reports its steps: how many tokens each drafted, and how many it accepted."
        if report and report.steps == 0:
            return f"{self.title} drafted nothing for this text; where it drafts, it reports it."
        told = "sums alone" if report else "nothing of speculation"
        shown = ("a chunk of its answer is a round" if self.kind.a_chunk_is_a_step
                 else "its rounds are not known, only the chunks that its answer came in")
        return f"{self.title} reports {told}: {shown}. {self.kind.more}"

    def answer(self, ask: PromptRequest, seconds: float = STREAM_SECONDS) -> AbstractContextManager[Events]:
        """The events of its answer, within so many seconds."""
        return self.client.stream(CHAT, {**body_of(ask, self.model, self.kind), "logprobs": True}, seconds)

    def counts(self) -> Counts:
        """Its counters over all requests so far; ServerError where it has none of those that are shown."""
        try:
            counts = counts_of(self.client.text("/metrics"), self.kind.counters)
        except ServerError as error:
            raise ServerError(" ".join(filter(None, (str(error), self.kind.counting)))) from error
        if counts.empty:
            raise ServerError(f"{self.client.address}/metrics has none of the counters of {self.kind.title}.")
        return counts


def open_server(client: Client, look: Callable[[], None] = lambda: None) -> Server:
    """Open a server: ask for its kind, model and version, and send a short trial request; ServerError where it cannot
    be used. ``look`` is called now and then, and what it raises ends this."""
    listed = client.ask("/v1/models").get("data")
    if not isinstance(listed, list) or not listed or not isinstance(listed[0], Mapping):
        raise ServerError(f"{client.address} lists no model under /v1/models; load one there.")
    model, owner = listed[0].get("id"), listed[0].get("owned_by")
    if not _is_name(model):
        raise ServerError(f"{client.address} calls its model {seen(model)}; it has to have a name of at most "
                          f"{LONGEST_NAME} printable characters.")
    kind = next((kind for kind in KINDS.values() if kind.owner == owner), UNKNOWN)
    limit: Any = listed[0].get("max_model_len")
    known = type(limit) is int and 0 < limit <= LARGEST
    return _tried(Server(client, kind, model, _version(client, kind), limit if known else 0), look)


def _is_name(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value.isprintable()


def body_of(ask: PromptRequest, model: str, kind: ServerKind) -> dict[str, Any]:
    """The body of a streamed request to the server."""
    sampling = ask.sampling
    messages = [*({"role": role, "content": text} for role, text in ask.turns), {"role": "user", "content": ask.prompt}]
    cuts = {"top_k": sampling.top_k} if sampling.top_k else {}
    return {"model": model, "messages": messages, "max_tokens": ask.max_tokens, "temperature": sampling.temperature,
            "top_p": sampling.top_p, "seed": sampling.seed, **cuts, **kind.asks, "stream": True,
            "stream_options": {"include_usage": True}}


def _version(client: Client, kind: ServerKind) -> str:
    """The server's version; empty where it does not report one, since nothing depends on it."""
    path, name = kind.version
    try:
        version = client.ask(path, seconds=5.0).get(name, "") if path else ""
    except ServerError:
        return ""
    return version if _is_name(version) else ""


def _tried(server: Server, look: Callable[[], None]) -> Server:
    """The server with its report of a short trial request."""
    reader, report, written = AnswerReader(LONGEST_CHUNK), None, 0  # some write more than they are asked for
    with server.answer(TRIAL, TRIAL_SECONDS) as events:
        for event in events:
            look()
            if event is not None:
                written += len(reader.take(event))
                report = server.kind.report(event) or report
    # it tells of these steps and of no others
    told = report and report.accepted and sum(report.accepted) + len(report.accepted) >= written - 1
    return replace(server, trial=report, width=report.width if report and told else 0)
