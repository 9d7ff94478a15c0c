"""Send HTTP requests to a server, with limits of time and size, and only to the given address.

    client = Client("http://127.0.0.1:8000")
    client.text("/metrics")
    with client.stream("/v1/chat/completions", body) as events: ...

Redirects are refused, proxies and passwords of the environment are not used, and the key in ``SERVER_KEY`` is sent to
that address only. Every failure is a ServerError.
"""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from queue import Empty, SimpleQueue
from threading import Thread
from types import MappingProxyType
from typing import Any

import httpx
from httpx_sse import EventSource

from engine.errors import ServerError
from engine.machine.files import cause_of
from engine.requests.rig_names import MODEL_MARK, SERVER_KEY, server_address

CONNECT_SECONDS = 5.0
READ_TIMEOUT_SECONDS = 60.0  # until a response begins, and between two pieces of it
RESPONSE_SECONDS, STREAM_SECONDS = 20.0, 1800.0
MAX_EVENT_BYTES, MAX_STREAM_BYTES = 4 * 2**20, 256 * 2**20
MAX_BUFFERED_EVENTS = 16  # events that the caller has not read yet
MAX_QUOTE_LENGTH = 200  # characters of the server's own message
POLL_SECONDS = 0.2
JSON, EVENTS, TEXT = "application/json", "text/event-stream", "text/plain"
DONE_EVENT = "[DONE]"
REFUSALS: Mapping[int, str] = MappingProxyType({
    401: f"requires a key (401); set {SERVER_KEY} in the environment and start the page again.",
    403: f"refuses access (403); check the key in {SERVER_KEY}.",
    404: "has no {} (404); check that it is an OpenAI-compatible server and that the address is complete.",
    429: "is overloaded (429); try again later."})

Events = Iterator[str | None]


class Client:
    """A client of one server. It is thread-safe. ``model``: the model that the address names, or ""."""

    def __init__(self, address: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.address, _, self.model = server_address(address).partition(MODEL_MARK)
        self._key = os.environ.get(SERVER_KEY, "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise ServerError(f"The key in {SERVER_KEY} has characters that a header cannot hold; check it.")
        self._loop = _loop()
        self._http = httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", **({"Authorization": f"Bearer {self._key}"} if self._key else {})},
            timeout=httpx.Timeout(READ_TIMEOUT_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx.Limits(keepalive_expiry=5.0), trust_env=False, verify=_ssl_context(), transport=transport)

    def text(self, path: str, body: Mapping[str, Any] | None = None, kind: str = TEXT,
             seconds: float = RESPONSE_SECONDS) -> str:
        """Return the text at a path; with ``body``, post that."""
        async def read() -> str:
            async with self._answer(path, body, kind, seconds) as response:
                return bytes(await response.aread()).decode("utf8", "replace")

        return asyncio.run_coroutine_threadsafe(read(), self._loop).result()

    @contextmanager
    def stream(self, path: str, body: Mapping[str, Any], seconds: float = STREAM_SECONDS) -> Iterator[Events]:
        """Yield each event's data, or None every ``POLL_SECONDS`` so that the caller can cancel. Leaving the block
        closes the stream, which ends the server's work on it."""
        arrived: SimpleQueue[str | None] = SimpleQueue()  # None follows the last event
        free_slots = asyncio.Semaphore(MAX_BUFFERED_EVENTS)

        async def read() -> None:
            async with self._answer(path, body, EVENTS, seconds) as response:
                async for event in EventSource(response).aiter_sse():
                    response.stream.buffered = 0
                    if event.data == DONE_EVENT:
                        return
                    await free_slots.acquire()
                    arrived.put(event.data)
            raise ServerError("The server's response ends before its last event; the text so far is kept.")

        def events() -> Events:
            while True:
                try:
                    event = arrived.get(timeout=POLL_SECONDS)
                except Empty:
                    yield None
                    continue
                if event is None:
                    return work.result()  # raises the error of the stream, if any
                self._loop.call_soon_threadsafe(free_slots.release)
                yield event or None

        work = asyncio.run_coroutine_threadsafe(read(), self._loop)
        work.add_done_callback(lambda _: arrived.put(None))
        try:
            yield events()
        finally:
            work.cancel()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._http.aclose(), self._loop).result()

    @asynccontextmanager
    async def _answer(self, path: str, body: Mapping[str, Any] | None, kind: str,
                      seconds: float) -> AsyncIterator[Any]:
        """Yield a response of content type ``kind``, its body as ``BoundedBytes``; ServerError for any other."""
        content = None if body is None else json.dumps(body).encode()
        request = self._http.build_request("POST" if content else "GET", self.address + path, content=content,
                                           headers={"Accept": kind, **({"Content-Type": JSON} if content else {})})
        try:
            async with asyncio.timeout(seconds):
                async with asyncio.timeout(READ_TIMEOUT_SECONDS):
                    response = await self._http.send(request, stream=True)
                try:
                    response.stream = BoundedBytes(response.stream)
                    await self._check(path, response, kind)
                    yield response
                finally:
                    await response.aclose()
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise ServerError(f"{self.address} {_network_error(error, seconds)}") from error

    async def _check(self, path: str, response: httpx.Response, kind: str) -> None:
        """Raise ServerError if this is not a response of that content type."""
        status, fault = response.status_code, ""
        encoding = response.headers.get("content-encoding", "identity").lower()
        sent = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.next_request:
            host = response.next_request.url.host[:80]
            fault = f"redirects to {host}, which is not followed; if that is the server, use its address."
        elif status in REFUSALS:
            fault = REFUSALS[status].format(path)
        elif status != 200:
            message = refusal_message(await response.aread()).replace(self._key or "\0", "…")
            fault = f"{'refuses' if status < 500 else 'failed'} (status {status}).{message}"
        elif encoding != "identity":
            fault = f"sent a response encoded as {encoding[:20]!r}, which was not requested."
        elif kind not in (TEXT, sent):
            fault = (f"sent {path} with the content type {sent[:40]!r}; {kind} is expected: use the address of an "
                     "OpenAI-compatible server.")
        if fault:
            raise ServerError(f"{self.address} {fault}")
        response.encoding = "utf8"  # its own charset is ignored: one such as zlib would decompress without limit


class BoundedBytes(httpx.AsyncByteStream):
    """A response body with limits. ``buffered``: bytes since the last complete event; the reader resets it."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self.size = self.buffered = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._body:
            self.size, self.buffered = self.size + len(piece), self.buffered + len(piece)
            if self.buffered > MAX_EVENT_BYTES or self.size > MAX_STREAM_BYTES:
                raise ServerError(f"The server sent more than {MAX_EVENT_BYTES / 2**20:g} MiB as one response or "
                                  f"event, or {MAX_STREAM_BYTES / 2**20:g} MiB in all; that is the limit.")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


def _ssl_context() -> ssl.SSLContext | bool:
    """Return a context that trusts the file in SSL_CERT_FILE; True, httpx's default, if that is not set."""
    if not (file := os.environ.get("SSL_CERT_FILE")):
        return True
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ValueError) as error:
        raise ServerError(f"No certificates can be read from SSL_CERT_FILE, {file[:200]!r} ({cause_of(error)})."
                          ) from error


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all clients. It runs in its own thread, so waiting requests can be cancelled."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="servers", daemon=True).start()
    return loop


def _network_error(error: Exception, seconds: float) -> str:
    """Return what went wrong on the network, as the rest of a sentence that begins with the server's address."""
    if "SSL" in str(error):
        return (f"cannot be reached over TLS ({error}): set SSL_CERT_FILE to the file of its certificate authority, or "
                "write http:// if it has no certificate.")
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return "does not answer; start the server, or name another address."
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return (f"took too long: the limit is {min(READ_TIMEOUT_SECONDS, seconds):g} s without data and {seconds:g} s "
                "in all; it may be overloaded.")
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return "closed the connection early, or does not speak HTTP; the text so far is kept."
    return f"cannot be reached ({type(error).__name__}); check the address."


def refusal_message(data: bytes | str) -> str:
    """Return the message of an error response as a sentence on one line, after a blank; "" if there is none."""
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    message = " ".join(value.split()) if isinstance(value, str) else ""
    return f" It says: {message[:MAX_QUOTE_LENGTH]!r}." if message else ""
