"""An attached server: its kind, model and version, its answers, its counters over time, and its tokens per second and
how long a request takes by the concurrency.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from statistics import median
from threading import Event, Lock
from time import monotonic, perf_counter
from typing import Any, TypeGuard

from engine.errors import CanopyError, ServerError
from engine.recorder import MAX_INT32, seen
from engine.records import PromptRequest
from engine.requests.limits import TRIED_CONCURRENCY
from engine.requests.rig_names import MODEL
from engine.servers import KINDS
from engine.servers.answer import MAX_CHUNK_LENGTH, AnswerReader
from engine.servers.client import STREAM_SECONDS, Client, Events
from engine.servers.kind import UNKNOWN, Counts, ServerKind, ServerReport, count, counts_of, section

CHAT = "/v1/chat/completions"
TRIAL = PromptRequest("Count from one to ten.", max_tokens=16)  # a short request that shows what the server reports
TRIAL_SECONDS = 120.0
MAX_NAMED = 12  # of a server's models, in a sentence
MAX_NAME_LENGTH = 200  # characters of a model's name or a version
MIN_SECONDS = 1.0  # between two looks at the counters, however many browsers ask
MAX_LOOKS = 900
SILENT_TOKENS = 64  # that a server writes without a draft before that is said
ROUNDS_OF_REQUESTS = 2  # how many requests are sent at a level, as a multiple of those at once
MAX_TOKENS = 64  # of an answer
LEVEL_SECONDS = 60.0  # after which a level sends no further request


@dataclass(frozen=True)
class Server:
    """An open server. ``trial`` is its report of a short trial request, None if it reported nothing; ``width`` is
    the number of tokens that each step of it drafted, 0 if the server does not report single steps."""

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
        reported = "sums alone" if report else "nothing of speculation"
        shown = ("a chunk of its answer is a round" if self.kind.a_chunk_is_a_step
                 else "its rounds are not known, only the chunks that its answer came in")
        return f"{self.title} reports {reported}: {shown}. {self.kind.more}"

    def answer(self, ask: PromptRequest, seconds: float = STREAM_SECONDS) -> AbstractContextManager[Events]:
        """The events of its answer, within so many seconds."""
        return self.client.stream(CHAT, {**body_of(ask, self.model, self.kind), "logprobs": True}, seconds)

    def counts(self) -> Counts:
        """Its counters over all requests so far; ServerError if it has none of those that are shown."""
        try:
            counts = counts_of(self.client.text("/metrics"), self.kind.counters)
        except ServerError as error:
            raise ServerError(" ".join(filter(None, (str(error), self.kind.counting)))) from error
        if counts.empty:
            raise ServerError(f"{self.client.address}/metrics has none of the counters of {self.kind.title}.")
        return counts


def open_server(client: Client, look: Callable[[], None] = lambda: None) -> Server:
    """Open a server: ask for its kind, model and version, and send a short trial request; ServerError if it cannot
    be used. ``look`` is called now and then, and what it raises ends this."""
    chosen = _chosen(client)
    kind = next((kind for kind in KINDS.values() if kind.owner == chosen.get("owned_by")), UNKNOWN)
    limit: Any = chosen.get("max_model_len")
    known = type(limit) is int and 0 < limit <= MAX_INT32
    return _tried(Server(client, kind, chosen["id"], _version(client, kind), limit if known else 0), look)


def _chosen(client: Client) -> Mapping[str, Any]:
    """The model that the address names, as the server lists it, else the only one; several names of the same weights
    are one."""
    listed = client.ask("/v1/models").get("data")
    models = [model for model in listed if isinstance(model, Mapping)] if isinstance(listed, list) else []
    if not models:
        raise ServerError(f"{client.address} lists no model under /v1/models; load one there.")
    names = [name for model in models if _is_name(name := model.get("id"))]
    if not names:
        raise ServerError(f"{client.address} calls its model {seen(models[0].get('id'))}; it has to have a name of at "
                          f"most {MAX_NAME_LENGTH} printable characters.")
    several = len({str(model.get("root") or model["id"]) for model in models if model.get("id") in names}) > 1
    if client.model not in names and (client.model or several):
        wrong = f"has no model {client.model[:MAX_NAME_LENGTH]!r}" if client.model else f"serves {len(names)} models"
        more = ", …" if len(names) > MAX_NAMED else ""
        raise ServerError(f"{client.address} {wrong}; name one of {', '.join(names[:MAX_NAMED])}{more}, as in "
                          f"{client.address}{MODEL}{names[0]}.")
    return next(model for model in models if model.get("id") == (client.model or names[0]))


def _is_name(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME_LENGTH and value.isprintable()


def body_of(ask: PromptRequest, model: str, kind: ServerKind) -> dict[str, Any]:
    """The body of a streamed request to the server."""
    sampling = ask.sampling
    messages = [*({"role": role, "content": text} for role, text in ask.turns), {"role": "user", "content": ask.prompt}]
    cuts = {"top_k": sampling.top_k} if sampling.top_k else {}
    return {"model": model, "messages": messages, "max_tokens": ask.max_tokens, "temperature": sampling.temperature,
            "top_p": sampling.top_p, "seed": sampling.seed, **cuts, **kind.asks, "stream": True,
            "stream_options": {"include_usage": True}}


def _version(client: Client, kind: ServerKind) -> str:
    """The server's version; empty if it does not report one, since nothing depends on it."""
    path, name = kind.version
    try:
        version = client.ask(path, seconds=5.0).get(name, "") if path else ""
    except ServerError:
        return ""
    return version if _is_name(version) else ""


def _tried(server: Server, look: Callable[[], None]) -> Server:
    """The server with its report of a short trial request."""
    reader, report, written = AnswerReader(MAX_CHUNK_LENGTH), None, 0  # some write more than they are asked for
    with server.answer(TRIAL, TRIAL_SECONDS) as events:
        for event in events:
            look()
            if event is not None:
                written += len(reader.take(event))
                report = server.kind.report(event) or report
    # it reports these steps and no others
    of_trial = report and report.accepted and sum(report.accepted) + len(report.accepted) >= written - 1
    return replace(server, trial=report, width=report.width if report and of_trial else 0)


@dataclass(frozen=True)
class TrafficLook:
    """The counters at a time, in seconds since the first look."""

    seconds: float
    counts: Counts


@dataclass(frozen=True)
class Traffic:
    """The traffic between two looks: ``seconds`` at its end, tokens per second, and tokens per round, the root
    included; None for what the server does not count, or if nothing was drafted."""

    seconds: float
    tokens_per_second: float | None
    tau: float | None


class Watch:
    """The counters of one server, looked at from time to time."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._lock = Lock()
        self._began = monotonic()
        self._looks: deque[TrafficLook] = deque(maxlen=MAX_LOOKS)

    def look(self) -> list[TrafficLook]:
        """The looks so far, with a new one where the last is old enough."""
        with self._lock:
            now = monotonic() - self._began
            if not self._looks or now - self._looks[-1].seconds >= MIN_SECONDS:
                self._looks.append(TrafficLook(now, self.server.counts()))
            return list(self._looks)


def traffic(looks: Sequence[TrafficLook]) -> list[Traffic]:
    """The traffic between each two looks. A counter that fell means that the server was restarted."""
    return [_between(before, after) for before, after in zip(looks, looks[1:], strict=False)]


def by_depth(looks: Sequence[TrafficLook]) -> list[float]:
    """The share of drafts whose token at each depth was accepted, since the first look; if nothing was drafted
    since then, since the server started."""
    if not looks:
        return []
    first, last = looks[0].counts, looks[-1].counts
    drafts = _grown(first.drafts, last.drafts)
    if drafts:
        before = [*first.by_depth, *[0.0] * len(last.by_depth)]
        return [max(0.0, now - then) / drafts for then, now in zip(before, last.by_depth, strict=False)]
    return [now / last.drafts for now in last.by_depth] if last.drafts else []


def silence(looks: Sequence[TrafficLook]) -> str:
    """That the server drafts nothing although it writes, in a sentence; empty if it drafts, and where it wrote
    little or does not count that. It looks back to the last draft."""
    if not looks:
        return ""
    last = looks[-1].counts
    quiet = [look for look in looks if look.counts.drafts == last.drafts]
    tokens = _grown(quiet[0].counts.generated, last.generated)
    if tokens is None or tokens < SILENT_TOKENS:
        return ""
    seconds = looks[-1].seconds - quiet[0].seconds
    return (f"It wrote {tokens:.0f} tokens in the last {seconds:.0f} s and reported no drafted token: speculation is "
            "off, fell back to plain decoding, or is not counted there.")


def _between(before: TrafficLook, after: TrafficLook) -> Traffic:
    then, now = before.counts, after.counts
    drafts, accepted = _grown(then.drafts, now.drafts), _grown(then.accepted, now.accepted)
    generated = _grown(then.generated, now.generated)
    tau = 1 + accepted / drafts if drafts and accepted is not None else now.length
    rate = None if generated is None else generated / (after.seconds - before.seconds)
    return Traffic(after.seconds, rate, tau)


def _grown(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None or after < before else after - before


@dataclass(frozen=True)
class ConcurrencyLevel:
    """The measurement at one number of requests at once: ``tokens`` of all answers in ``seconds`` from the first
    request to the last answer; ``latencies`` in seconds, one per answer; ``failed`` requests, and the first one's
    ``failure``."""

    concurrency: int
    tokens: int
    seconds: float
    latencies: tuple[float, ...]
    failed: int = 0
    failure: str = ""

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of all requests together."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def latency(self) -> float | None:
        """The median latency in seconds; None if no request was answered."""
        return median(self.latencies) if self.latencies else None


def measured(server: Server, prompts: Sequence[str], stop: Event) -> Iterator[ConcurrencyLevel]:
    """The levels one after another, each over the same prompts in turn. Ends after a level whose requests all failed,
    or once ``stop`` is set. The very first request does not count, since it may find the server cold."""
    _time_answer(server, prompts[0])
    for concurrency in TRIED_CONCURRENCY:
        if stop.is_set():
            return
        level = _level(server, list(islice(cycle(prompts), ROUNDS_OF_REQUESTS * concurrency)), concurrency, stop)
        yield level
        if not level.latencies:
            return


def _level(server: Server, prompts: Sequence[str], concurrency: int, stop: Event) -> ConcurrencyLevel:
    began = perf_counter()

    def ask(prompt: str) -> tuple[int, float] | str | None:
        if perf_counter() - began > LEVEL_SECONDS or stop.is_set():
            return None
        try:
            return _time_answer(server, prompt)
        except CanopyError as error:
            return str(error)

    with ThreadPoolExecutor(concurrency, thread_name_prefix="load") as threads:
        outcomes = list(threads.map(ask, prompts))
    seconds = perf_counter() - began
    answered = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
    failures = [outcome for outcome in outcomes if isinstance(outcome, str)]
    return ConcurrencyLevel(concurrency, sum(tokens for tokens, _ in answered), seconds, tuple(
        spent for _, spent in answered), len(failures), failures[0] if failures else "")


def _time_answer(server: Server, prompt: str) -> tuple[int, float]:
    """How many tokens an answer had, and how many seconds it took."""
    asked = body_of(PromptRequest(prompt, max_tokens=MAX_TOKENS), server.model, server.kind)
    left_out = {"stream", "stream_options", *server.kind.asks}
    body = {name: value for name, value in asked.items() if name not in left_out}
    began = perf_counter()
    answer = server.client.ask(CHAT, body, seconds=LEVEL_SECONDS)
    tokens = count(section(answer, "usage") or {}, "completion_tokens", MAX_TOKENS)
    if tokens is None:
        raise ServerError(f"{server.client.address} does not say how many tokens it wrote (usage.completion_tokens).")
    return tokens, perf_counter() - began
