"""Watches a server's counters over time, and measures its tokens per second, and how long a request takes, by the
number of requests at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import median
from threading import Event, Lock
from time import monotonic, perf_counter

from engine.errors import CanopyError, ServerError
from engine.records import PromptRequest
from engine.requests.limits import TRIED_CONCURRENCY
from engine.servers.kind import Counts, count, section
from engine.servers.server import CHAT, Server, body_of

LEAST_SECONDS = 1.0  # between two looks, however many browsers ask
MOST_LOOKS = 900


@dataclass(frozen=True)
class TrafficLook:
    """The counters at a time, in seconds since the first look."""

    seconds: float
    counts: Counts


@dataclass(frozen=True)
class Traffic:
    """The traffic between two looks: ``seconds`` at its end, tokens per second, and tokens per round, the root
    included; None for what the server does not count, or where nothing was drafted."""

    seconds: float
    tokens_per_second: float | None
    tau: float | None


class Watch:
    """The counters of one server, looked at from time to time."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._lock = Lock()
        self._began = monotonic()
        self._looks: deque[TrafficLook] = deque(maxlen=MOST_LOOKS)

    def look(self) -> list[TrafficLook]:
        """The looks so far, with a new one where the last is old enough."""
        with self._lock:
            now = monotonic() - self._began
            if not self._looks or now - self._looks[-1].seconds >= LEAST_SECONDS:
                self._looks.append(TrafficLook(now, self.server.counts()))
            return list(self._looks)


def traffic(looks: Sequence[TrafficLook]) -> list[Traffic]:
    """The traffic between each two looks. A counter that fell means that the server was restarted."""
    return [_between(before, after) for before, after in zip(looks, looks[1:], strict=False)]


def by_place(looks: Sequence[TrafficLook]) -> list[float]:
    """The share of drafts whose token at each place was accepted, since the first look; where nothing was drafted
    since then, since the server started."""
    if not looks:
        return []
    first, last = looks[0].counts, looks[-1].counts
    drafts = _grown(first.drafts, last.drafts)
    if drafts:
        before = [*first.by_place, *[0.0] * len(last.by_place)]
        return [max(0.0, now - then) / drafts for then, now in zip(before, last.by_place, strict=False)]
    return [now / last.drafts for now in last.by_place] if last.drafts else []


SILENT_TOKENS = 64  # that a server writes without a draft before that is said


def silence(looks: Sequence[TrafficLook]) -> str:
    """That the server drafts nothing although it writes, in a sentence; empty where it drafts, and where it wrote
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


ROUNDS_OF_REQUESTS = 2  # how many requests are sent at a level, as a multiple of those at once
MOST_TOKENS = 64  # of an answer
LEVEL_SECONDS = 60.0  # after which a level sends no further request


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
        """The median latency in seconds; None where no request was answered."""
        return median(self.latencies) if self.latencies else None


def measured(server: Server, prompts: Sequence[str], stop: Event) -> Iterator[ConcurrencyLevel]:
    """The levels one after another, each over the same prompts in turn. Ends after a level whose requests all failed,
    or once ``stop`` is set. The very first request does not count, since it may find the server cold."""
    _answered(server, prompts[0])
    for concurrency in TRIED_CONCURRENCY:
        if stop.is_set():
            return
        level = _level(server, list(islice(cycle(prompts), ROUNDS_OF_REQUESTS * concurrency)), concurrency, stop)
        yield level
        if not level.latencies:
            return


def _level(server: Server, prompts: Sequence[str], concurrency: int, stop: Event) -> ConcurrencyLevel:
    began = perf_counter()

    def asked(prompt: str) -> tuple[int, float] | str | None:
        if perf_counter() - began > LEVEL_SECONDS or stop.is_set():
            return None
        try:
            return _answered(server, prompt)
        except CanopyError as error:
            return str(error)

    with ThreadPoolExecutor(concurrency, thread_name_prefix="load") as threads:
        outcomes = list(threads.map(asked, prompts))
    seconds = perf_counter() - began
    answered = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
    failures = [outcome for outcome in outcomes if isinstance(outcome, str)]
    return ConcurrencyLevel(concurrency, sum(tokens for tokens, _ in answered), seconds,
                            tuple(spent for _, spent in answered),
                 len(failures), failures[0] if failures else "")


def _answered(server: Server, prompt: str) -> tuple[int, float]:
    """How many tokens an answer had, and how many seconds it took."""
    asked = body_of(PromptRequest(prompt, max_tokens=MOST_TOKENS), server.model, server.kind)
    left_out = {"stream", "stream_options", *server.kind.asks}
    body = {name: value for name, value in asked.items() if name not in left_out}
    began = perf_counter()
    answer = server.client.ask(CHAT, body, seconds=LEVEL_SECONDS)
    tokens = count(section(answer, "usage") or {}, "completion_tokens", MOST_TOKENS)
    if tokens is None:
        raise ServerError(f"{server.client.address} does not say how many tokens it wrote (usage.completion_tokens).")
    return tokens, perf_counter() - began
