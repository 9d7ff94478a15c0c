"""Who sends a request: the readers of streams, and the addresses that log in.

Gradio makes a run whether or not anybody reads its answers, and keeps them in memory. So the gate registers which
streams are open, and a run whose stream is closed loses its place in the queue. To slow down guessing of passwords, an
address has to wait after a few failures, longer each time.
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

from explorer.bounded_dict import BoundedDict

STALL_SECONDS = 30.0  # a reader that accepts no data for longer is disconnected
MAX_REMEMBERED_ADDRESSES = 4096  # addresses that have failed
READERS_KEY = "canopy.readers"  # in the ASGI scope
PROXY_KEY = "canopy.behind_proxy"  # in the ASGI scope: whether requests may come through a proxy
STREAMS = ("/gradio_api/queue/data", "/gradio_api/call/")
ALLOWED_FAILURES = 5  # people mistype
MAX_LOGIN_WAIT_SECONDS = 60.0  # no longer, or others who share the address could be kept out


class Readers:
    """The open streams, by a browser's session or the event of another program."""

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

    def is_open(self, name: str) -> bool:
        return name in self._open


@dataclass(frozen=True)
class Requester:
    """Who asked for a run. One that did not come through the gate counts as connected."""

    address: str = ""
    cache_key: str | None = ""  # see ``cache_key_of``
    is_connected: Callable[[], bool] = lambda: True


def current_requester() -> Requester:
    """Return who sent the request that Gradio is answering."""
    from gradio.context import LocalContext  # noqa: PLC0415 - the gate is there before Gradio, which takes seconds

    request = LocalContext.request.get(None)
    scope = request.request.scope if request is not None and request.request is not None else {}
    readers = scope.get(READERS_KEY)
    if readers is None or not request.session_hash:
        return Requester()
    return Requester(client_key(client_of(scope)), cache_key_of(scope), partial(readers.is_open, request.session_hash))


def client_of(scope: Scope) -> str:
    """Return the address that a request comes from, or ""."""
    return str((scope.get("client") or ("", 0))[0])


def cache_key_of(scope: Scope) -> str | None:
    """Return the key of the cached texts that a request may start from; None behind a proxy that hides addresses, since
    everyone behind it would share them."""
    client = client_of(scope)
    if scope.get(PROXY_KEY) and client not in re.split(r"[\s,]+", ",".join(
            Headers(scope=scope).getlist("x-forwarded-for"))):
        return None
    return client_key(client)


def stream_of(scope: Scope) -> str | None:
    """Return the name of the stream that a request opens, or None."""
    path = scope["path"]
    if scope["method"] != "GET" or not path.startswith(STREAMS):
        return None
    return QueryParams(scope["query_string"]).get("session_hash") or path.rstrip("/").rsplit("/", 1)[1]


def with_send_timeout(send: Send) -> Send:
    """Wrap ``send`` so that it raises TimeoutError if the reader accepts nothing for ``STALL_SECONDS``."""
    async def send_in_time(message: Message) -> None:
        async with asyncio.timeout(STALL_SECONDS):
            await send(message)
    return send_in_time


class Logins:
    """Failed logins by address. An attempt counts as failed until it succeeds, so parallel attempts gain nothing."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        # failures since the last successful login, and when the address may try again
        self._failures = BoundedDict[str, tuple[int, float]](MAX_REMEMBERED_ADDRESSES)

    def wait_seconds(self, address: str) -> float:
        """Return how long an address has to wait before its next attempt."""
        _, again = self._failures.get(client_key(address), (0, 0.0))
        return max(0.0, again - self._clock())

    def attempt(self, address: str) -> None:
        key = client_key(address)
        count = self._failures.get(key, (0, 0.0))[0] + 1
        over = count - ALLOWED_FAILURES
        wait = min(MAX_LOGIN_WAIT_SECONDS, 2.0 ** min(over, 30)) if over > 0 else 0.0
        self._failures[key] = count, self._clock() + wait

    def succeeded(self, address: str) -> None:
        self._failures.pop(client_key(address), None)


def client_key(address: str) -> str:
    """Return the key by which clients are limited: the address; for IPv6 the /64 prefix, because one household has all
    of it."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or IPv6Address(int(parsed) >> 64 << 64))
