"""A server's tokens per second, and how long a request takes, by the concurrency."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import median
from threading import Event
from time import perf_counter

from engine.errors import CanopyError
from engine.requests.limits import TRIED_CONCURRENCY
from engine.servers.server import Server

ROUNDS_OF_REQUESTS = 2  # how many requests are sent at a level, as a multiple of those at once
LEVEL_SECONDS = 60.0  # after which a level sends no further request


@dataclass(frozen=True)
class ConcurrencyLevel:
    """The measurement at one number of requests at once: ``tokens_per_second`` of all together, the median ``latency``
    in seconds, None if no request was answered; how many ``failed``, and the first one's ``failure``."""

    concurrency: int
    tokens_per_second: float
    latency: float | None
    failed: int
    failure: str


def measure(server: Server, prompts: Sequence[str], stop: Event) -> Iterator[ConcurrencyLevel]:
    """Measure the levels one after another, each over the same prompts in turn. Ends after a level whose requests all
    failed, or once ``stop`` is set. The very first request does not count, since it may find the server cold."""
    server.time_answer(prompts[0])
    for concurrency in TRIED_CONCURRENCY:
        if stop.is_set():
            return
        began = perf_counter()

        def ask(prompt: str, began: float = began) -> tuple[int, float] | str | None:
            if perf_counter() - began > LEVEL_SECONDS or stop.is_set():
                return None
            try:
                return server.time_answer(prompt)
            except CanopyError as error:
                return str(error)

        requests = islice(cycle(prompts), ROUNDS_OF_REQUESTS * concurrency)
        with ThreadPoolExecutor(concurrency, thread_name_prefix="load") as threads:
            outcomes = list(threads.map(ask, requests))
        seconds = perf_counter() - began
        answered = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
        failures = [outcome for outcome in outcomes if isinstance(outcome, str)]
        yield ConcurrencyLevel(
            concurrency, sum(tokens for tokens, _ in answered) / seconds,
            median(seconds for _, seconds in answered) if answered else None, len(failures), next(iter(failures), ""))
        if not answered:
            return
