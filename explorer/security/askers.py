"""Who asks: the readers of streams, and the addresses that log in.

Only those who wait keep a place in the queue. Gradio makes a run whether or not its answers are taken, and keeps them
in memory. The gate therefore notes which streams of answers are open and are read, and a run asks whether its own is.
Guessing a password takes long: after a few failures an address has to wait, longer each time.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from threading import Lock
from time import monotonic

from starlette.datastructures import Headers, QueryParams
from starlette.types import Message, Scope, Send

from engine.errors import RequestError
from explorer.latest import Latest

LISTENER_TIMEOUT_SECONDS = 30.0  # without anybody who listens
STALL_SECONDS = 30.0  # for a piece of an answer to be taken
MAX_REMEMBERED = 4096  # streams that have ended, and addresses that have failed
KEY = "canopy.readers"  # of the scope, by which a run finds them
BEHIND_PROXY = "canopy.behind_proxy"  # of the scope, whether requests may come through a proxy
STREAMS = ("/gradio_api/queue/data", "/gradio_api/call/")
FREE_FAILURES = 5  # a person mistypes
MAX_WAIT_SECONDS = 60.0  # no longer, or others who share the address could be kept out


class Readers:
    """The open streams by what they are for: a browser's session, or an event of another program."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._open: Counter[str] = Counter()
        self._left = Latest[str, float](MAX_REMEMBERED)  # when the last reader left

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Register a reader for as long as the block lasts."""
        with self._lock:
            self._open[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[name] -= 1
                if not self._open[name]:
                    del self._open[name]
                    self._left[name] = self._clock()

    def silent_seconds(self, name: str, since: float) -> float:
        """For how many seconds there has been no reader, counted from ``since`` at the earliest."""
        with self._lock:
            return 0.0 if self._open[name] else self._clock() - max(since, self._left.get(name, since))


@dataclass(frozen=True)
class Asker:
    """The reader that asked for a run: from which address, with whose cache, under which name of a stream, and when.
    One that did not come through the gate has none of these, and is never missed."""

    address: str = ""
    cache: str | None = ""  # see ``cache_of``
    stream: str = ""
    readers: Readers | None = None
    since: float = 0.0

    def check(self) -> None:
        """RequestError if the browser or program that asked no longer listens."""
        if self.readers and self.readers.silent_seconds(self.stream, self.since) > LISTENER_TIMEOUT_SECONDS:
            raise RequestError(f"Nobody has listened for {LISTENER_TIMEOUT_SECONDS:.0f} s, so the run was given up; "
                               "ask again.")


def asker() -> Asker:
    """Who asked for what is being answered."""
    from gradio.context import LocalContext  # noqa: PLC0415 - the gate is there before Gradio, which takes seconds

    request = LocalContext.request.get(None)
    scope = request.request.scope if request is not None and request.request is not None else {}
    readers = scope.get(KEY)
    if readers is None or not request.session_hash:
        return Asker()
    return Asker(neighbourhood(client_of(scope)), cache_of(scope), request.session_hash, readers, monotonic())


def client_of(scope: Scope) -> str:
    """The address that a request comes from; empty if it is not known."""
    return str((scope.get("client") or ("", 0))[0])


def cache_of(scope: Scope) -> str | None:
    """The address whose cached texts a request may begin with; None behind a proxy that hides who asks, since all who
    come through it would share one."""
    client = client_of(scope)
    if scope.get(BEHIND_PROXY) and client not in re.split(r"[\s,]+", ",".join(
            Headers(scope=scope).getlist("x-forwarded-for"))):
        return None
    return neighbourhood(client)


def stream_of(scope: Scope) -> str | None:
    """The name of the stream that a request opens; None if it opens none."""
    path = scope["path"]
    if scope["method"] != "GET" or not path.startswith(STREAMS):
        return None
    return QueryParams(scope["query_string"]).get("session_hash") or path.rstrip("/").rsplit("/", 1)[1]


def impatient(send: Send) -> Send:
    """Do not wait for a reader that no longer takes answers."""
    async def send_in_time(message: Message) -> None:
        async with asyncio.timeout(STALL_SECONDS):
            await send(message)
    return send_in_time


class Logins:
    """The failures of every address. An attempt counts as failed until it succeeds, so that many at once gain
    nothing."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        # how often each has failed since its last successful login, and when it may try again
        self._failures = Latest[str, tuple[int, float]](MAX_REMEMBERED)

    def wait_seconds(self, address: str) -> float:
        """How long that address has to wait before its next attempt; 0 for not at all."""
        _, again = self._failures.get(neighbourhood(address), (0, 0.0))
        return max(0.0, again - self._clock())

    def attempt(self, address: str) -> None:
        key = neighbourhood(address)
        count = self._failures.get(key, (0, 0.0))[0] + 1
        over = count - FREE_FAILURES
        wait = min(MAX_WAIT_SECONDS, 2.0 ** min(over, 30)) if over > 0 else 0.0
        self._failures[key] = count, self._clock() + wait

    def succeeded(self, address: str) -> None:
        self._failures.pop(neighbourhood(address), None)


def neighbourhood(address: str) -> str:
    """The address; of the sixth version its first 64 bits, of which one household has all."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or IPv6Address(int(parsed) >> 64 << 64))
