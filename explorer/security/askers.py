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
from functools import partial
from ipaddress import IPv6Address, ip_address
from threading import Lock
from time import monotonic

from starlette.datastructures import Headers, QueryParams
from starlette.types import Message, Scope, Send

from explorer.latest import Latest

STALL_SECONDS = 30.0  # a reader that takes no piece of an answer for longer is given up
MAX_REMEMBERED = 4096  # addresses that have failed
READERS_KEY = "canopy.readers"  # in the ASGI scope
PROXY_KEY = "canopy.behind_proxy"  # in the ASGI scope: whether requests may come through a proxy
STREAMS = ("/gradio_api/queue/data", "/gradio_api/call/")
ALLOWED_FAILURES = 5  # people mistype
MAX_WAIT_SECONDS = 60.0  # no longer, or others who share the address could be kept out


class Readers:
    """The open streams by what they are for: a browser's session, or an event of another program."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: Counter[str] = Counter()

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

    def listens(self, name: str) -> bool:
        """Whether that stream is open."""
        return name in self._open


@dataclass(frozen=True)
class Asker:
    """Who asked for a run: from which address, with whose cache, and whether it still listens. One that did not come
    through the gate is never missed."""

    address: str = ""
    cache: str | None = ""  # see ``cache_of``
    listens: Callable[[], bool] = lambda: True


def asker() -> Asker:
    """Return who sent the request that is being answered."""
    from gradio.context import LocalContext  # noqa: PLC0415 - the gate is there before Gradio, which takes seconds

    request = LocalContext.request.get(None)
    scope = request.request.scope if request is not None and request.request is not None else {}
    readers = scope.get(READERS_KEY)
    if readers is None or not request.session_hash:
        return Asker()
    return Asker(neighbourhood(client_of(scope)), cache_of(scope), partial(readers.listens, request.session_hash))


def client_of(scope: Scope) -> str:
    """The address that a request comes from; empty if it is not known."""
    return str((scope.get("client") or ("", 0))[0])


def cache_of(scope: Scope) -> str | None:
    """The address whose cached texts a request may begin with; None behind a proxy that hides who asks, since all who
    come through it would share one."""
    client = client_of(scope)
    if scope.get(PROXY_KEY) and client not in re.split(r"[\s,]+", ",".join(
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
        over = count - ALLOWED_FAILURES
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
